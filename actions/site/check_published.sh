#!/usr/bin/env bash
# Fails unless the repository publishes no pages, or those of ciguard, which have its marker.
set -euo pipefail

answer=$RUNNER_TEMP/ciguard-published

ask() { # prints the status of an answer, 000 without one
  curl --silent --show-error --max-time 20 --output "$answer" --write-out '%{http_code}' "$@" || true
}

refuse() {
  echo "::error::$1. Nothing is published: take pages = \"public\" out of [workflow], or remove that site (Settings, Pages)"
  exit 1
}

# Standard input: the command line of a process can be read by every other one.
status=$(ask --config - "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/pages" <<< "header = \"Authorization: Bearer $GITHUB_TOKEN\"")
case $status in
  404) echo "no pages are published" && exit 0 ;;
  200) ;;
  *) refuse "GitHub does not say what the repository publishes (status $status)" ;;
esac
# The status is null until a branch is published, and also for pages that a workflow publishes: of
# these, a site without a first page cannot be told from none.
read -r is_built url < <("$_CIGUARD_PYTHON" -I -c '
import json, sys
site = json.load(open(sys.argv[1]))
print(bool(site.get("status") or site.get("custom_404")), site["html_url"])' "$answer")
status=$(ask --location "${url%/}/ciguard-site.json")
if [ "$status" = 200 ] && grep -q '"ciguard_site"' "$answer"; then
  echo "$url is a site of ciguard"
elif [ "$status" = 404 ] && [ "$is_built" = False ] && [ "$(ask --location "$url")" = 404 ]; then
  echo "$url is empty"
elif [ "$status" = 200 ] || [ "$status" = 404 ]; then
  refuse "$url is the site of another program"
else
  refuse "$url cannot be read (status $status)"
fi
