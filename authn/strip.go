package authn

import "net/http"

// A Stripper is an Authenticator that reads users from headers, as those of front proxies do. Strip
// removes these headers, so that no server behind this one reads what any client can send.
type Stripper interface {
	Strip(http.Header)
}

// Strip removes the headers that the authenticators of c read users from.
func (c Chain) Strip(h http.Header) {
	for _, a := range c {
		if s, ok := a.(Stripper); ok {
			s.Strip(h)
		}
	}
}
