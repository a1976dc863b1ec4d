package server

import (
	"net/http"
	"net/url"

	"github.com/planekit/planekit/kubelet/server/internal/channel"
	"github.com/planekit/planekit/kubelet/server/internal/translate"
)

// translate serves a WebSocket in a subprotocol that is translated to SPDY for the runtime, and
// reports whether it has. The runtime gets all others as they are, among them the versions 1 to 3. Without a command, it is for
// ports.
func (s *Server) translate(w http.ResponseWriter, r *http.Request, through http.RoundTripper, to *url.URL, command *streams, ports []int32) bool {
	offered := translate.Offered(r)
	t := translate.Translator{Transport: through, Limits: s.config.Streams, Log: s.config.Log}
	if command == nil {
		if protocols := translate.Tunnelled(offered); len(protocols) > 0 {
			t.Tunnel(w, r, to, protocols)
			return true
		}
		p, ok := channel.ChooseForward(offered, len(ports))
		if ok {
			t.Forward(w, r, to, p, ports)
		}
		return ok
	}
	p, ok := channel.Choose(offered)
	if ok {
		t.Command(w, r, to, p, translate.Streams{Stdin: command.stdin, Stdout: command.stdout, Stderr: command.stderr, TTY: command.tty})
	}
	return ok
}
