// Package authn finds out who is asking.
//
// An [Authenticator] looks at a request and gives one of three answers: I know
// the user; this is not mine, ask the next; or, the credentials are mine and
// they are bad. A [Chain] asks several in order. [Handler] puts a chain in
// front of any http.Handler:
//
//	chain := authn.Chain{certificates, tokens}
//	http.ListenAndServeTLS(addr, cert, key, authn.Handler(next, chain))
//
// Behind Handler the Authorization header is gone and the user is in the
// context (see package user), so nothing further in can leak or replay a
// credential.
//
// Each way of authenticating is a package below this one: x509, requestheader,
// tokenfile, basicauth, bootstraptoken, serviceaccount, anonymous. Package
// tokencache remembers what slow ones said, and reload keeps those that come from a
// file up to date with it. This package knows nothing of Kubernetes types, and
// links nothing but the standard library.
//
// A credential may be meant for somebody: see [WithAudiences] and [MeantFor]. What an
// audit should know of how a request was authenticated is said by [Annotate].
package authn

import (
	"net/http"

	"github.com/planekit/planekit/authn/user"
)

// An Authenticator tells who sent a request.
//
//   - (user, true, nil): the user is known. The user must have a name.
//   - (nil, false, nil): the request carries no credentials of this kind; ask
//     the next authenticator.
//   - (nil, false, err): the credentials are of this kind and were refused, or
//     they could not be checked.
//
// Authenticate must be safe for concurrent use, must not change the request or
// read its body, honours the request's context, and never puts a credential
// into an error. The returned Info must not be changed afterwards by anyone.
type Authenticator interface {
	Authenticate(*http.Request) (*user.Info, bool, error)
}

// Func is a function that is an [Authenticator].
type Func func(*http.Request) (*user.Info, bool, error)

// Authenticate calls f.
func (f Func) Authenticate(r *http.Request) (*user.Info, bool, error) { return f(r) }
