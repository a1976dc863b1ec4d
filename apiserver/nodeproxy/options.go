package nodeproxy

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planekit/planekit/internal/invalid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// flag reads a boolean of a query as Kubernetes does: there and not false or 0
// is true.
func flag(query url.Values, name string) bool {
	values, ok := query[name]
	if !ok || len(values) == 0 {
		return false
	}
	switch values[0] {
	case "false", "False", "FALSE", "0":
		return false
	}
	return true
}

// logQuery checks the options of a log request, PodLogOptions, and returns what
// the kubelet is asked for.
func logQuery(query url.Values, pod string) (url.Values, error) {
	out := url.Values{}
	for _, name := range []string{"follow", "previous", "timestamps"} {
		if flag(query, name) {
			out.Set(name, "true")
		}
	}
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		least int64
		rule  string
	}{
		{"tailLines", 0, "must be greater than or equal to 0"},
		{"limitBytes", 1, "must be greater than 0"},
		{"sinceSeconds", 1, "must be greater than 0"},
	} {
		text := query.Get(n.name)
		if text == "" {
			continue
		}
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if value < n.least {
			errs = append(errs, field.Invalid(field.NewPath(n.name), value, n.rule))
		}
		out.Set(n.name, strconv.FormatInt(value, 10))
	}
	if text := query.Get("sinceTime"); text != "" {
		since, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if out.Has("sinceSeconds") {
			errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
		}
		out.Set("sinceTime", since.Format(time.RFC3339))
	}
	streams := []string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}
	if stream := query.Get("stream"); stream != "" {
		if !slices.Contains(streams, stream) {
			errs = append(errs, field.NotSupported(field.NewPath("stream"), stream, streams))
		}
		out.Set("stream", stream)
	}
	if len(errs) > 0 {
		return nil, invalid.Object(schema.GroupKind{Kind: "PodLogOptions"}, pod, errs)
	}
	return out, nil
}

// streamQuery returns the kubelet's query for PodExecOptions or PodAttachOptions.
func streamQuery(query url.Values) url.Values {
	out := url.Values{}
	for name, kubelet := range map[string]string{"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"} {
		if flag(query, name) {
			out.Set(kubelet, "1")
		}
	}
	if command := query["command"]; len(command) > 0 {
		out["command"] = command
	}
	return out
}

// portQuery checks PodPortForwardOptions, whose ports are in the query for
// WebSockets only. They may be joined by commas.
func portQuery(query url.Values) (url.Values, error) {
	out := url.Values{}
	for _, texts := range query["ports"] {
		for text := range strings.SplitSeq(texts, ",") {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil || port == 0 {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("port %q must be between 1 and 65535", text))
			}
			out.Add("port", text)
		}
	}
	return out, nil
}

// container is the container of a pod that is meant. One that is not named
// must be the only one.
func container(pod *corev1.Pod, name string) (string, error) {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	switch {
	case name != "" && slices.Contains(names, name):
		return name, nil
	case name != "":
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	case len(pod.Spec.Containers) == 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", pod.Name, names))
}
