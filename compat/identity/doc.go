// Package identity compares authentication by a stock kube-apiserver and by a plane: tokens of OpenID Connect issuers that
// are valid, changed and forged, headers of front proxies, and impersonation on top of them. A user that only one of them
// accepts, or that has another name there, is a failure.
package identity
