package client

import "net/http"

// A TransportFunc is a function that implements [http.RoundTripper].
type TransportFunc func(*http.Request) (*http.Response, error)

// RoundTrip calls f(r).
func (f TransportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// InProcess returns the Config of a client for a server in the same process. transport, such as the
// result of [apiserver.Server.Transport], passes requests to the server and decides which user they
// act as. A [TransportFunc] may look up the server at each request, so that clients can be created
// before the server.
//
// [apiserver.Server.Transport]:
// https://pkg.go.dev/github.com/planekit/planekit/apiserver#Server.Transport
func InProcess(transport http.RoundTripper) Config {
	return Config{Server: "http://in-process", Transport: transport}
}
