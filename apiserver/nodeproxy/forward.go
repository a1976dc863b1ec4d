package nodeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdlog "log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/upgraded"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is none in particular, for errors about what is behind it.
var resource schema.GroupResource

// webSocketToken is the prefix of those subprotocols of WebSocket that are a bearer token
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/).
const (
	webSocketToken    = "base64url.bearer.authorization.k8s.io."
	webSocketProtocol = "Sec-Websocket-Protocol"
)

// subprotocols returns the WebSocket subprotocols that a client offers.
func subprotocols(h http.Header) []string {
	var out []string
	for _, line := range h.Values(webSocketProtocol) {
		for name := range strings.SplitSeq(line, ",") {
			out = append(out, strings.TrimSpace(name))
		}
	}
	return out
}

// errRedirect is a kubelet's attempt to send us elsewhere.
var errRedirect = errors.New("the backend attempted to redirect this request, which is not permitted")

// backend is another server that a request is carried to.
type backend struct {
	url *url.URL
	by  http.RoundTripper
	// node is where it runs, empty where that is not known.
	node string
	// kubelet says that it is the node's kubelet, which does not redirect.
	kubelet bool
	// prefix is the part of the client's path that leads to the server; redirects lead through it. Empty leaves them.
	prefix string
}

// forward carries the request to another server, upgrades included, without
// what the user proved who they are with.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, to backend) error {
	if r.Header.Get("Upgrade") != "" {
		leave, err := p.enter(r.Context(), to.node)
		if err != nil {
			return err
		}
		defer leave()
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	proxy := httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) {
			q.Out.URL, q.Out.Host = to.url, ""
			strip(q.Out.Header)
			if to.prefix != "" {
				q.Out.Header.Set("X-Forwarded-Uri", q.In.URL.EscapedPath())
			}
		},
		Transport:     to.by,
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			if to.kubelet && answer.StatusCode >= 300 && answer.StatusCode < 400 {
				return errRedirect
			}
			to.relocate(answer, r)
			to.relink(answer, r)
			upgraded.Guard(answer, p.config.Streams, cancel)
			return nil
		},
		ErrorLog: stdlog.New(logWriter{p.config.Log}, "", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			writeError(w, p.unreachable(r, err))
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// enter counts an upgraded connection in, or refuses it. The caller calls leave
// when it has ended.
func (p *Proxy) enter(ctx context.Context, node string) (leave func(), err error) {
	name := ""
	if u, ok := user.FromContext(ctx); ok {
		name = u.Name
	}
	leaveUser, ok := p.users.Enter(name, p.config.StreamsPerUser)
	if !ok {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("user %q has %d streams open, which is the most for a user", name, p.config.StreamsPerUser), retryAfter)
	}
	leaveNode, ok := p.nodes.Enter(node, p.config.StreamsPerNode)
	if !ok {
		leaveUser()
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("node %q has %d streams open, which is the most for a node", node, p.config.StreamsPerNode), retryAfter)
	}
	return func() { leaveNode(); leaveUser() }, nil
}

// retryAfter is when a client that was refused a stream may try again, in seconds.
const retryAfter = 1

// strip takes everything off that says who the user is or wants to be.
func strip(h http.Header) {
	h.Del("Authorization")
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-") {
			delete(h, name)
		}
	}
	if _, ok := h[webSocketProtocol]; ok {
		var keep []string
		for _, name := range subprotocols(h) {
			if !strings.HasPrefix(name, webSocketToken) {
				keep = append(keep, name)
			}
		}
		h.Del(webSocketProtocol)
		if len(keep) > 0 {
			h.Set(webSocketProtocol, strings.Join(keep, ", "))
		}
	}
}

// unreachable is the API's error for a backend that gave no answer.
func (p *Proxy) unreachable(r *http.Request, err error) error {
	p.config.Log.V(1).Info("proxy failed", "path", r.URL.Path, "error", err.Error())
	var refused *refusedError
	if errors.As(err, &refused) {
		return apierrors.NewBadRequest(refused.Error())
	}
	if errors.Is(err, errRedirect) {
		return apierrors.NewGenericServerResponse(http.StatusBadGateway, "", resource, "", err.Error(), 0, true)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("error trying to reach service: %v", err))
}

// kubeletError is the API's error for what a kubelet said.
func kubeletError(code int, message string) error {
	switch code {
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(message)
	case http.StatusUnauthorized, http.StatusForbidden:
		// It is the API server that the kubelet does not know, not the user.
		return apierrors.NewInternalError(fmt.Errorf("the kubelet refused the API server: %s", message))
	}
	if message == "" || code < 400 {
		return apierrors.NewInternalError(fmt.Errorf("the kubelet answered with code %d", code))
	}
	err := apierrors.NewGenericServerResponse(code, "get", resource, "", message, 0, true)
	err.ErrStatus.Message = message
	return err
}

// writeError answers with the API's form of an error.
func writeError(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Details == nil && status.Reason == metav1.StatusReasonNotFound {
		status.Details = &metav1.StatusDetails{} // kubectl debug reads it unseen
	}
	data, err := json.Marshal(&status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	w.Write(data)
}

type logWriter struct{ log logr.Logger }

func (l logWriter) Write(line []byte) (int, error) {
	l.log.V(1).Info("http", "message", string(line))
	return len(line), nil
}
