package authn

import "errors"

// ErrUnchecked marks errors (see [errors.Is]) meaning that a credential could not be verified, for
// example because a server could not be reached. The credential may be valid: do not cache the
// result.
var ErrUnchecked = errors.New("the credential could not be checked")

// ErrManyAuthorizations means that a request has several Authorization headers. Such a request is
// refused, because different parts of a system might use different headers.
var ErrManyAuthorizations = errors.New("more than one Authorization header")
