// Package authn authenticates requests.
//
// An [Authenticator] gives one of three answers: the user; "not mine", so that the next
// authenticator is asked; or an error, because its credentials are invalid. A [Chain] asks several
// in order. [Handler] puts a chain in front of any http.Handler:
//
//	chain := authn.Chain{certificates, tokens}
//	http.ListenAndServeTLS(addr, cert, key, authn.Handler(next, chain))
//
// Handler removes the Authorization header and puts the user into the context (see package user),
// so that inner handlers cannot leak or replay a credential.
//
// Each authentication method is a subpackage: x509, requestheader, tokenfile, basicauth,
// bootstraptoken, serviceaccount, anonymous, oidc, structured, webhook. Package tokencache caches
// the answers of slow authenticators, and reload reloads those that read a file. This package does
// not depend on Kubernetes types and links only the standard library.
//
// Credentials can be restricted to audiences; see [WithAudiences] and [MeantFor]. [Annotate] adds
// details of the authentication to the audit log.
package authn

import (
	"net/http"

	"github.com/planekit/planekit/authn/user"
)

// An Authenticator determines the user that sent a request. Authenticate returns one of
//
//   - (user, true, nil): the request is from user, who must have a name.
//   - (nil, false, nil): the request carries no credentials of this kind; ask
//     the next authenticator.
//   - (nil, false, err): the credentials are of this kind and are invalid, or they
//     could not be verified.
//
// Authenticate must be safe for concurrent use. It must not change the request or read its body,
// must honour the request's context, and must never put a credential into an error. The returned
// Info must not be changed afterwards.
type Authenticator interface {
	Authenticate(*http.Request) (*user.Info, bool, error)
}

// Func adapts a function to an [Authenticator].
type Func func(*http.Request) (*user.Info, bool, error)

// Authenticate calls f.
func (f Func) Authenticate(r *http.Request) (*user.Info, bool, error) { return f(r) }
