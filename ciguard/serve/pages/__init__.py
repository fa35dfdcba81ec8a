"""What people see: pages in HTML, and each as JSON."""
