package nodeproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	stdlog "log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is none in particular, for errors about what is behind it.
var resource schema.GroupResource

// Subprotocols of WebSocket that runtimes do not speak, and the prefix of those
// that are a bearer token
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/).
const (
	webSocketV5       = "v5.channel.k8s.io"
	webSocketTunnel   = "SPDY/3.1+portforward.k8s.io"
	webSocketToken    = "base64url.bearer.authorization.k8s.io."
	webSocketProtocol = "Sec-Websocket-Protocol"
)

// subprotocols are those that a client offers.
func subprotocols(h http.Header) []string {
	var out []string
	for _, line := range h.Values(webSocketProtocol) {
		for name := range strings.SplitSeq(line, ",") {
			out = append(out, strings.TrimSpace(name))
		}
	}
	return out
}

// refuseTranslation refuses what would have to be translated for the runtime.
// Clients that offer an older version as well are served with that.
func refuseTranslation(h http.Header) error {
	offered, usable := subprotocols(h), 0
	for _, name := range offered {
		if name != webSocketV5 && name != webSocketTunnel && !strings.HasPrefix(name, webSocketToken) {
			usable++
		}
	}
	if len(offered) > 0 && usable == 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("WebSocket protocols %v are not supported here: use SPDY/3.1", []string{webSocketV5, webSocketTunnel}))
	}
	return nil
}

// errRedirect is a kubelet's attempt to send us elsewhere.
var errRedirect = errors.New("the backend attempted to redirect this request, which is not permitted")

// forward carries the request to another server, upgrades included, without
// what the user proved who they are with.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, to *url.URL, by http.RoundTripper, kubelet bool) {
	proxy := httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) {
			q.Out.URL, q.Out.Host = to, ""
			strip(q.Out.Header)
		},
		Transport:     by,
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			if kubelet && answer.StatusCode >= 300 && answer.StatusCode < 400 {
				return errRedirect
			}
			return nil
		},
		ErrorLog: stdlog.New(logWriter{p.config.Log}, "", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			writeError(w, p.unreachable(r, err))
		},
	}
	proxy.ServeHTTP(w, r)
}

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
	data, err := json.Marshal(&status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
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
