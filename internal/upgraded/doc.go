// Package upgraded bounds connections that were made of HTTP requests: SPDY/3.1
// and WebSocket streams which a proxy carries through without reading them.
//
//	proxy.ModifyResponse = func(answer *http.Response) error {
//		upgraded.Guard(answer, upgraded.Limits{}, cancel)
//		return nil
//	}
//
// # Model
//
// A guard sees the bytes of both directions and changes none. Of what the client
// sends it reads the headers of frames, never their payload: a client that sends
// anything but frames of the protocol is cut off at the first bad header.
//
// How long nothing may move depends on what the client has shown so far:
//
//   - nothing, although the protocol has the client begin (SPDY): [Limits].Handshake.
//   - nothing, where it need not send (WebSocket and others): [Limits].Unheard.
//   - pings, as all clients of client-go do: [Limits].Silence after the last frame,
//     or three times the interval of its pings, once the other end has answered the last one.
//   - frames, but no pings: [Limits].Idle, 4 h as streamingConnectionIdleTimeout of
//     Kubernetes.
//
// Guards send no pings of their own. Machines that vanish are noticed by TCP
// keepalive, which the listeners of package net have on.
package upgraded
