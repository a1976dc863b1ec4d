package metricsapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target names the resource, namespace and object of a path.
type target struct{ resource, namespace, name string }

// parsePath returns what a path below the group version names; ok is false if that is nothing.
func parsePath(path string) (t target, ok bool) {
	rest, ok := strings.CutPrefix(path, "/apis/"+GroupVersion.String()+"/")
	if !ok {
		return target{}, false
	}
	segments := strings.Split(rest, "/")
	if len(segments) >= 3 && segments[0] == "namespaces" && segments[2] == "pods" {
		t.namespace, segments = segments[1], segments[2:]
		ok = t.namespace != ""
	}
	t.resource = segments[0]
	if len(segments) == 2 {
		t.name = segments[1]
		ok = ok && t.name != "" && (t.resource == "nodes" || t.namespace != "")
	}
	return t, ok && len(segments) <= 2 && (t.resource == "nodes" || t.resource == "pods")
}

// Attributes returns the attributes of a request for authz.Handler, with the user in its context:
// get or list of nodes and pods of the group, or a path.
func Attributes(r *http.Request) authz.Attributes {
	t, ok := parsePath(r.URL.Path)
	if !ok {
		return authz.Path(r)
	}
	a := authz.Attributes{
		Group: GroupVersion.Group, Version: GroupVersion.Version, Resource: t.resource, Namespace: t.namespace, Name: t.name,
		Verb: verbOf(r, t),
	}
	a.User, _ = user.FromContext(r.Context())
	return a
}

func verbOf(r *http.Request, t target) string {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return strings.ToLower(r.Method)
	case t.name != "":
		return "get"
	case isWatch(r.URL.Query()):
		return "watch"
	}
	return "list"
}

// isWatch reports whether a query asks for a watch.
func isWatch(query url.Values) bool {
	value, set := query["watch"]
	return set && (len(value) == 0 || value[0] != "false" && value[0] != "0")
}

// ServeHTTP serves discovery, the usage of nodes and pods, /healthz, /livez and /readyz.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		fail(w, apierrors.NewMethodNotSupported(schema.GroupResource{Group: GroupVersion.Group}, strings.ToLower(r.Method)))
		return
	}
	switch r.URL.Path {
	case "/healthz", "/livez":
		fmt.Fprint(w, "ok")
		return
	case "/readyz":
		s.readyz(w)
		return
	}
	if document := discovery[strings.TrimSuffix(r.URL.Path, "/")]; document != nil {
		respond(w, document)
		return
	}
	t, ok := parsePath(r.URL.Path)
	if !ok {
		fail(w, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "the server could not find the requested resource", 0, false))
		return
	}
	query := r.URL.Query()
	if isWatch(query) {
		fail(w, apierrors.NewMethodNotSupported(t.groupResource(), "watch"))
		return
	}
	asTable, ok := negotiate(r.Header.Values("Accept"))
	if !ok {
		fail(w, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "get", t.groupResource(), t.name,
			"only the following media types are accepted: application/json, application/json;as=Table;v=v1;g=meta.k8s.io", 0, true))
		return
	}
	which, err := newSelection(t, query)
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	include := metav1.IncludeObjectPolicy(query.Get("includeObject"))
	if t.resource == "nodes" {
		s.serveNodes(w, t, which, asTable, include)
	} else {
		s.servePods(w, t, which, asTable, include)
	}
}

// readyz reports whether the nodes and pods are known.
func (s *Server) readyz(w http.ResponseWriter) {
	select {
	case <-s.config.Nodes.Synced():
		fmt.Fprint(w, "ok")
	default:
		http.Error(w, "the nodes are not known yet", http.StatusServiceUnavailable)
	}
}

func (s *Server) serveNodes(w http.ResponseWriter, t target, which *selection, asTable bool, include metav1.IncludeObjectPolicy) {
	list := NodeMetricsList{TypeMeta: typeOf("NodeMetricsList")}
	if t.name == "" {
		list.Items = s.listNodes(which)
	} else if node, ok := s.config.Nodes.Get(t.name); ok {
		if m := s.nodeMetrics(node); m != nil {
			list.Items = []NodeMetrics{*m}
		}
	}
	switch {
	case t.name != "" && len(list.Items) == 0:
		fail(w, apierrors.NewNotFound(t.groupResource(), t.name))
	case asTable:
		table := newTable()
		for i := range list.Items {
			m := &list.Items[i]
			addRow(table, &m.ObjectMeta, m.Usage, m.Window, m, include)
		}
		respond(w, table)
	case t.name != "":
		respond(w, &list.Items[0])
	default:
		respond(w, &list)
	}
}

func (s *Server) servePods(w http.ResponseWriter, t target, which *selection, asTable bool, include metav1.IncludeObjectPolicy) {
	list := PodMetricsList{TypeMeta: typeOf("PodMetricsList")}
	full := t.namespace + "/" + t.name
	if t.name == "" {
		list.Items = s.listPods(which)
	} else if pod, ok := s.config.Pods.Get(full); ok {
		if m := s.podMetrics(pod); m != nil {
			list.Items = []PodMetrics{*m}
		}
	}
	switch {
	case t.name != "" && len(list.Items) == 0:
		fail(w, apierrors.NewNotFound(t.groupResource(), full))
	case asTable:
		table := newTable()
		for i := range list.Items {
			m := &list.Items[i]
			addRow(table, &m.ObjectMeta, m.sum(), m.Window, m, include)
		}
		respond(w, table)
	case t.name != "":
		respond(w, &list.Items[0])
	default:
		respond(w, &list)
	}
}

func (t target) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: GroupVersion.Group, Resource: t.resource}
}

// newSelection returns what the query of a list selects.
func newSelection(t target, query url.Values) (*selection, error) {
	which := &selection{namespace: t.namespace}
	var err error
	if which.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return nil, fmt.Errorf("labelSelector: %w", err)
	}
	if which.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return nil, fmt.Errorf("fieldSelector: %w", err)
	}
	for _, r := range which.fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return nil, fmt.Errorf("fieldSelector: field label not supported: %s", r.Field)
		}
	}
	if c := query.Get("continue"); c != "" {
		return nil, fmt.Errorf("continue: a list has one part, and %q is of none", c)
	}
	return which, nil
}

// discovery holds the discovery documents by path.
var discovery = func() map[string]any {
	version := metav1.GroupVersionForDiscovery{GroupVersion: GroupVersion.String(), Version: GroupVersion.Version}
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"},
		Name:     GroupVersion.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group}}
	groups.Groups[0].TypeMeta = metav1.TypeMeta{}
	verbs := metav1.Verbs{"get", "list"}
	return map[string]any{
		"/apis":                       &groups,
		"/apis/" + GroupVersion.Group: &group,
		"/apis/" + GroupVersion.String(): &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: GroupVersion.String(),
			APIResources: []metav1.APIResource{
				{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
				{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
			},
		},
	}
}()

// respond writes a value as JSON.
func respond(w http.ResponseWriter, value any) { write(w, http.StatusOK, value) }

// fail writes an error as a Status.
func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	write(w, int(status.Code), &status)
}

func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(encode(value), '\n'))
}

// encode returns the JSON of one of the types of this package or of Kubernetes' metadata, which all
// can be encoded.
func encode(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("metricsapi: %T: %v", value, err))
	}
	return data
}
