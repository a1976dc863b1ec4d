package client

import "net/http"

// A TransportFunc is a function that is an [http.RoundTripper].
type TransportFunc func(*http.Request) (*http.Response, error)

// RoundTrip calls f(r).
func (f TransportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// InProcess returns the Config of a client of a server in the same process.
// transport hands requests to the server and decides which user they act as, such
// as the result of [apiserver.Server.Transport]. A [TransportFunc] may look the
// server up at each request, so that clients can be made before it.
//
// [apiserver.Server.Transport]: https://pkg.go.dev/github.com/planekit/planekit/apiserver#Server.Transport
func InProcess(transport http.RoundTripper) Config {
	return Config{Server: "http://in-process", Transport: transport}
}
