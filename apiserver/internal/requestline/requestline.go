// Package requestline reads the first line of a request: what its method and path are about ([Parse]), and
// the options in its query ([Options]). Authorization and routing read the same [Info], so they cannot
// disagree about it. A path with segments that another program could read in another way is refused.
package requestline

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/requirement"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Info holds what a request's method and URL say.
type Info struct {
	Verb string
	// Resource fields; Resource is empty for other paths.
	Group, Version, Resource, Subresource, Namespace, Name string
	// Path is the URL path without its trailing slash.
	Path string
	// Fields and Labels select the objects of a list, watch or deletecollection.
	Fields, Labels []authz.Requirement
	// Rest says that the path goes on behind the subresource, where only a proxy serves.
	Rest bool
	// OldWatch is set for the deprecated paths of watches, /api/v1/watch/..., which may name an object.
	OldWatch bool
	// runs says that the path leads to a kubelet's way of running something.
	runs bool
}

// Parse reads the request line. It fails on segments which a path could
// be confused by: dots, encoded slashes and percent signs, control characters.
func Parse(method string, u *url.URL) (Info, error) {
	path := u.Path
	escaped := strings.ToLower(u.EscapedPath())
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%5c") {
		return Info{}, fmt.Errorf("invalid path: encoded separator")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if !strings.HasPrefix(path, "/") {
		return Info{}, fmt.Errorf("invalid path: not absolute")
	}
	info := Info{Path: path, Verb: strings.ToLower(method)}
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		if err := CheckSegment(segment); err != nil && path != "/" && !allNamespaces(method, segments, i) {
			return Info{}, err
		}
	}
	switch {
	case segments[0] == "api" && len(segments) > 2:
		info.Version = segments[1]
		segments = segments[2:]
	case segments[0] == "apis" && len(segments) > 3:
		info.Group, info.Version = segments[1], segments[2]
		segments = segments[3:]
	default:
		return info, nil
	}
	if info.OldWatch = method == http.MethodGet && segments[0] == "watch" && len(segments) > 1; info.OldWatch {
		segments = segments[1:]
	}
	info.locate(segments)
	info.setVerb(method, u.Query())
	return info, nil
}

// allNamespaces reports whether the segment at i is empty where a list or a watch has its namespace: some clients
// send that for the objects of all namespaces.
func allNamespaces(method string, segments []string, i int) bool {
	if method != http.MethodGet && method != http.MethodHead || segments[i] != "" || i != len(segments)-2 {
		return false
	}
	return segments[i-1] == "namespaces" && (segments[0] == "api" && i == 3 || segments[0] == "apis" && i == 4)
}

// CheckSegment returns an error unless segment can stand between the slashes of a path, or of a storage
// key, and nothing else.
func CheckSegment(segment string) error {
	switch {
	case segment == "":
		return fmt.Errorf("invalid path: empty segment")
	case segment == "." || segment == "..":
		return fmt.Errorf("invalid path: segment %q", segment)
	case !utf8.ValidString(segment):
		return fmt.Errorf("invalid path: not UTF-8")
	case strings.ContainsFunc(segment, func(r rune) bool { return r < ' ' || r == 0x7f || r == '%' || r == '/' }):
		return fmt.Errorf("invalid path: segment %q", segment)
	}
	return nil
}

// locate reads what follows the version. A namespace itself is addressed with
// its own name as namespace, so that a role inside it can grant access to it,
// as in Kubernetes.
func (i *Info) locate(segments []string) {
	if segments[0] == "namespaces" && len(segments) > 1 {
		i.Namespace = segments[1]
		if len(segments) > 2 && segments[2] != "status" && segments[2] != "finalize" {
			segments = segments[2:]
		}
	}
	i.Resource = segments[0]
	if len(segments) > 1 {
		i.Name = segments[1]
	}
	if len(segments) > 2 {
		i.Subresource = segments[2]
	}
	i.Rest = len(segments) > 3
	i.runs = i.Rest && i.Group == "" && i.Resource == "nodes" && i.Subresource == "proxy" && runsAtKubelet(segments[3])
}

// runsAtKubelet reports whether paths of a kubelet that begin with segment run
// something in a container or connect to it. Case does not count: that of the paths
// is the kubelet's affair.
func runsAtKubelet(segment string) bool {
	return slices.ContainsFunc([]string{"attach", "cri", "exec", "portForward", "run"}, func(s string) bool { return strings.EqualFold(s, segment) })
}

func (i *Info) setVerb(method string, query url.Values) {
	switch method {
	case http.MethodPost:
		i.Verb = "create"
	case http.MethodGet, http.MethodHead:
		i.Verb = "get"
	case http.MethodPut:
		i.Verb = "update"
	case http.MethodPatch:
		i.Verb = "patch"
	case http.MethodDelete:
		i.Verb = "delete"
	default:
		i.Verb = strings.ToLower(method)
	}
	if i.OldWatch {
		i.Verb = "watch"
		i.narrow(query)
		return
	}
	if i.Name != "" {
		// Running something in a pod takes the right to create, by whatever method
		// the connection is made: WebSockets can only begin with GET.
		if i.Verb == "get" && slices.Contains([]string{"exec", "attach", "portforward"}, i.Subresource) ||
			i.runs && slices.Contains([]string{"delete", "get", "patch", "update"}, i.Verb) {
			i.Verb = "create"
		}
		return
	}
	switch i.Verb {
	case "get":
		var o metav1.ListOptions
		unreadable := ReadOptions(query, &o) != nil
		if unreadable { // the handler of the verb that Kubernetes takes it for returns the error
			o.Watch = query.Has("watch") && !slices.Contains([]string{"false", "0"}, strings.ToLower(query.Get("watch")))
		}
		i.Verb = "list"
		if o.Watch && method == http.MethodGet {
			i.Verb = "watch"
		}
		if unreadable {
			return
		}
	case "delete":
		i.Verb = "deletecollection"
	default:
		return
	}
	i.narrow(query)
}

// longestNarrowing bounds, in bytes, the selectors that authorizers see. A selector
// can only make more requests allowed. A longer one is parsed after authorization, so
// that refused requests cost no parsing.
const longestNarrowing = 16 << 10

// narrow reads the selectors. One that cannot be read narrows nothing here; the
// request fails later, when it is known to be allowed.
func (i *Info) narrow(query url.Values) {
	if selector := query.Get("labelSelector"); selector != "" && len(selector) <= longestNarrowing {
		i.Labels, _ = requirement.Labels(selector)
	}
	selector := query.Get("fieldSelector")
	if selector == "" || len(selector) > longestNarrowing {
		return
	}
	i.Fields, _ = requirement.Fields(selector)
	if i.Verb == "deletecollection" || i.OldWatch {
		return
	}
	// A list of one name is authorized as such: it lets a role which names its
	// objects grant list and watch.
	if parsed, err := fields.ParseSelector(selector); err == nil {
		if name, ok := parsed.RequiresExactMatch("metadata.name"); ok && CheckSegment(name) == nil {
			i.Name = name
		}
	}
}

// GVR returns the group, version and resource; empty for other paths.
func (i *Info) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: i.Group, Version: i.Version, Resource: i.Resource}
}

// Attributes describes the request to authorizers.
func (i *Info) Attributes(u *user.Info) authz.Attributes {
	a := authz.Attributes{User: u, Verb: i.Verb}
	if i.Resource == "" {
		a.Path = i.Path
		return a
	}
	a.Group, a.Version, a.Resource, a.Subresource = i.Group, i.Version, i.Resource, i.Subresource
	a.Namespace, a.Name = i.Namespace, i.Name
	a.Fields, a.Labels = i.Fields, i.Labels
	return a
}
