// Package upgraded limits connections that began as HTTP requests: SPDY/3.1 and WebSocket streams
// that a proxy forwards without reading them.
//
//	reverse.ModifyResponse = func(answer *http.Response) error {
//		upgraded.Guard(answer, upgraded.Limits{}, cancel)
//		return nil
//	}
//
// # Model
//
// A guard sees the bytes of both directions and changes none. It reads the headers of the frames
// that the client sends, never their payload. If a client sends anything but frames of the
// protocol, the guard ends the connection at the first bad header.
//
// The time for which a connection may be idle depends on the frames of the client so far:
//
//   - none, although the protocol has the client begin (SPDY): [Limits].Handshake.
//   - none, and the client need not send any (WebSocket and others): [Limits].Unheard.
//   - pings, as from all clients of client-go: [Limits].Silence after the last frame,
//     or three times the interval of its pings, once the other end has answered the last one.
//   - frames, but no pings: [Limits].Idle, 4 h as streamingConnectionIdleTimeout of
//     Kubernetes.
//
// Guards send no pings of their own. TCP keepalive, which the listeners of package net enable,
// detects machines that vanish.
package upgraded
