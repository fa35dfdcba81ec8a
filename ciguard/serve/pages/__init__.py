"""Pages for people, in HTML, and each as JSON."""
