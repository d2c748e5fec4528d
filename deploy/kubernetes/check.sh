#!/usr/bin/env bash
# Builds every overlay and checks the manifests against the schemas in this folder, which know the fields that are used here and no others.
set -euo pipefail
cd "$(dirname "$0")"
kustomize=$(../../scripts/go-program.sh kustomize)
kubeconform=$(../../scripts/go-program.sh kubeconform)
schemas='schemas/{{.ResourceKind}}{{.KindSuffix}}.json'

for overlay in base nodes agones; do
  printf '%s: ' "$overlay"
  "$kustomize" build "$overlay" | "$kubeconform" -strict -summary -schema-location "$schemas"
done
# A check that cannot fail is none.
if "$kustomize" build agones | sed 's/hostPort:/hostport:/' | "$kubeconform" -strict -schema-location "$schemas" >/dev/null; then
  echo "a misspelt field was not noticed" >&2
  exit 1
fi
