// Package identity asks a stock kube-apiserver and a plane who the sender of a request is: with tokens of OpenID Connect
// issuers that are right, changed and forged, with headers of front proxies, with impersonation on top of all of them.
// Whom the one believes and the other does not, or whom they know by another name, is a failure.
package identity
