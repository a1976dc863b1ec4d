package apiserver

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// deprecation returns kube-apiserver's warning about a built-in kind that is deprecated in the
// Kubernetes that the server says it is, empty for any other kind, and the release that removes the
// kind, empty if none does.
func deprecation(gvk schema.GroupVersionKind, object runtime.Object, now version.Info) (warning, removed string) {
	deprecated, ok := object.(interface{ APILifecycleDeprecated() (major, minor int) })
	if !ok {
		return "", ""
	}
	major, minor := deprecated.APILifecycleDeprecated()
	if current, err := strconv.Atoi(now.Minor); err == nil && current < minor {
		return "", ""
	}
	name := func(gvk schema.GroupVersionKind) string { return gvk.GroupVersion().String() + " " + gvk.Kind }
	warning = fmt.Sprintf("%s is deprecated in v%d.%d+", name(gvk), major, minor)
	if r, ok := object.(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		major, minor := r.APILifecycleRemoved()
		removed = fmt.Sprintf("%d.%d", major, minor)
		warning += fmt.Sprintf(", unavailable in v%s+", removed)
	}
	if r, ok := object.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		warning += "; use " + name(r.APILifecycleReplacement())
	}
	return warning, removed
}
