// Package bootstrap holds the controllers of bootstrap tokens, with which nodes join a cluster
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/): [Signer] signs the
// ConfigMap cluster-info with each token, and [TokenCleaner] deletes the secrets of expired tokens.
package bootstrap
