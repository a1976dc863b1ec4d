package authn

import "errors"

// ErrUnchecked is what an error is (see [errors.Is]) that says that a credential
// could not be checked, as when a server that knows could not be reached. It says
// nothing against the credential, which may be good the next time: nobody should
// remember it.
var ErrUnchecked = errors.New("the credential could not be checked")

// ErrManyAuthorizations refuses a request with several Authorization headers:
// whichever of them one part of a system believed, another might believe the
// other.
var ErrManyAuthorizations = errors.New("more than one Authorization header")
