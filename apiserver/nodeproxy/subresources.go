package nodeproxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/socket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// handler answers a request or returns an error with the API's code, before
// anything was answered.
type handler func(w http.ResponseWriter, r *http.Request) error

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		writeError(w, err)
	}
}

// Log serves the log of a pod's container. parent is a *corev1.Pod.
func (p *Proxy) Log(parent runtime.Object) (http.Handler, error) {
	pod := parent.(*corev1.Pod)
	return handler(func(w http.ResponseWriter, r *http.Request) error {
		query, err := logQuery(r.URL.Query(), pod.Name)
		if err != nil {
			return err
		}
		name, err := container(pod, r.URL.Query().Get("container"))
		if err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			// Nothing has been said yet.
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		to, err := p.kubelet(r.Context(), pod.Spec.NodeName)
		if err != nil {
			return err
		}
		return p.fetch(w, r, to.url(join("containerLogs", pod.Namespace, pod.Name, name), query.Encode()), to)
	}), nil
}

// Exec leads to a command in a pod's container. parent is a *corev1.Pod.
func (p *Proxy) Exec(parent runtime.Object) (http.Handler, error) {
	return p.container("exec", parent.(*corev1.Pod)), nil
}

// Attach leads to the streams of a pod's container. parent is a *corev1.Pod.
func (p *Proxy) Attach(parent runtime.Object) (http.Handler, error) {
	return p.container("attach", parent.(*corev1.Pod)), nil
}

func (p *Proxy) container(what string, pod *corev1.Pod) http.Handler {
	return handler(func(w http.ResponseWriter, r *http.Request) error {
		query := r.URL.Query()
		name, err := container(pod, query.Get("container"))
		if err != nil {
			return err
		}
		return p.upgrade(w, r, pod, join(what, pod.Namespace, pod.Name, string(pod.UID), name), streamQuery(query))
	})
}

// PortForward leads to ports of a pod. parent is a *corev1.Pod.
func (p *Proxy) PortForward(parent runtime.Object) (http.Handler, error) {
	pod := parent.(*corev1.Pod)
	return handler(func(w http.ResponseWriter, r *http.Request) error {
		query, err := portQuery(r.URL.Query())
		if err != nil {
			return err
		}
		return p.upgrade(w, r, pod, join("portForward", pod.Namespace, pod.Name, string(pod.UID)), query)
	}), nil
}

// upgrade leads to a path of the kubelet of the pod. A request without an upgrade is refused.
func (p *Proxy) upgrade(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, path string, query url.Values) error {
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	to, err := p.kubelet(r.Context(), pod.Spec.NodeName)
	if err != nil {
		return err
	}
	for _, value := range r.Header.Values("Connection") {
		if strings.Contains(strings.ToLower(value), "upgrade") {
			return p.forward(w, r, backend{url: to.url(path, query.Encode()), by: to, node: to.node, kubelet: true})
		}
	}
	return apierrors.NewBadRequest("Upgrade request required")
}

// NodeProxy leads to any path of a node's kubelet. parent is a *corev1.Node.
func (p *Proxy) NodeProxy(parent runtime.Object) (http.Handler, error) {
	node := parent.(*corev1.Node)
	return handler(func(w http.ResponseWriter, r *http.Request) error {
		target, err := parseTarget(r.URL.Path, "nodes")
		if err != nil || target.endWithSlash(w, r) {
			return err
		}
		to, err := p.kubeletOf(node)
		if err != nil {
			return err
		}
		if target.scheme != "" && target.scheme != "https" || target.port != "" && target.port != to.port {
			return apierrors.NewBadRequest(fmt.Sprintf("node %s: only the kubelet's port, %s, is proxied", node.Name, to.port))
		}
		return p.forward(w, r, backend{url: to.url(target.path, r.URL.RawQuery), by: to, node: to.node, kubelet: true})
	}), nil
}

// PodProxy leads to a port of a pod, by default the first its containers name.
// parent is a *corev1.Pod.
func (p *Proxy) PodProxy(parent runtime.Object) (http.Handler, error) {
	pod := parent.(*corev1.Pod)
	return handler(func(w http.ResponseWriter, r *http.Request) error {
		target, err := parseTarget(r.URL.Path, "pods")
		if err != nil || target.endWithSlash(w, r) {
			return err
		}
		address, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil {
			return apierrors.NewServiceUnavailable(fmt.Sprintf("pod %s has no address", pod.Name))
		}
		host := address.String()
		if port := podPort(pod, target.port); port != "" {
			host = net.JoinHostPort(host, port)
		} else if address.Is6() {
			host = "[" + host + "]"
		}
		to := &url.URL{Scheme: "http", Host: host, Path: target.path, RawQuery: r.URL.RawQuery}
		if target.scheme != "" {
			to.Scheme = target.scheme
		}
		return p.forward(w, r, backend{url: to, by: p.pods, node: pod.Spec.NodeName, prefix: target.prefix(r)})
	}), nil
}

// podPort is the port that is meant; empty is the scheme's own.
func podPort(pod *corev1.Pod, port string) string {
	if port != "" {
		return port
	}
	for i := range pod.Spec.Containers {
		if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
			return strconv.Itoa(int(ports[0].ContainerPort))
		}
	}
	return ""
}

// target holds the meaning of the path of a request for the subresource proxy.
type target struct {
	scheme, port, path string
	bare               bool // nothing follows the subresource, not even a slash
}

// parseTarget reads .../RESOURCE/[SCHEME:]NAME[:PORT]/proxy[/PATH]. The port of a service may be its name.
func parseTarget(path, resource string) (target, error) {
	// The API server has found the way by the same segments; the first ones of
	// these words are the resource's, but for a namespace of that name.
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	at := 4
	if resource == "nodes" { // which have no namespace
		at = 2
	}
	if len(segments) < at+3 || segments[at] != resource || segments[at+2] != "proxy" {
		return target{}, apierrors.NewBadRequest("not the path of a proxy")
	}
	t := target{path: "/" + strings.Join(segments[at+3:], "/"), bare: len(segments) == at+3}
	name := strings.Split(segments[at+1], ":")
	switch len(name) {
	case 1:
	case 2:
		t.port = name[1]
	case 3:
		t.scheme, t.port = name[0], name[2]
	default:
		return target{}, apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", strings.TrimSuffix(resource, "s"), segments[at+1]))
	}
	if t.scheme != "" && t.scheme != "http" && t.scheme != "https" {
		return target{}, apierrors.NewBadRequest(fmt.Sprintf("scheme %q must be http or https", t.scheme))
	}
	if port, err := strconv.ParseUint(t.port, 10, 16); resource != "services" && t.port != "" && (err != nil || port == 0) {
		return target{}, apierrors.NewBadRequest(fmt.Sprintf("port %q must be between 1 and 65535", t.port))
	}
	return t, nil
}

func join(segments ...string) string { return "/" + strings.Join(segments, "/") }

// maxMessage bounds what is read of a kubelet's error.
const maxMessage = 10 << 10

// fetch streams what the kubelet answers to a GET; errors come as the API's.
func (p *Proxy) fetch(w http.ResponseWriter, r *http.Request, to *url.URL, by http.RoundTripper) error {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, to.String(), nil)
	if err != nil {
		return err
	}
	answer, err := by.RoundTrip(request) // follows no redirect
	if err != nil {
		return p.unreachable(r, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		said, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage))
		if err != nil {
			return p.unreachable(r, err)
		}
		return kubeletError(answer.StatusCode, strings.TrimSpace(string(said)))
	}
	w.Header().Set("Content-Type", "text/plain")
	if socket.Requested(r) {
		conn, err := socket.Accept(w, r, func() { answer.Body.Close() })
		if err == nil { // else that is answered
			conn.Copy(answer.Body)
			conn.Close()
		}
		return nil
	}
	w.WriteHeader(http.StatusOK)
	copyFlushing(w, answer.Body)
	return nil
}

// copyFlushing copies from to w and flushes after each read. It ends when either side
// breaks off, which it does not report: no client is left.
func copyFlushing(w http.ResponseWriter, from io.Reader) {
	control, buffer := http.NewResponseController(w), make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			if control.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
