package pluginset_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/authorizers"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/plane/pluginset"
	corev1 "k8s.io/api/core/v1"
)

// A plugin of the program's own runs between those of Kubernetes.
func Example() {
	config, err := newConfig()
	if err != nil {
		fmt.Println(err)
		return
	}
	config.Options = pluginset.Options{
		Enable: []string{"AlwaysPullImages"}, Disable: []string{"NamespaceLifecycle", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"},
		More: []plugins.Plugin{{Name: "NoLatest", New: func([]byte) (any, error) { return admission.ValidatorFunc(noLatest), nil }}},
	}
	set, err := pluginset.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := apiserver.Config{}
	set.Configure(&server)
	for _, image := range []string{"nginx:1.27", "nginx:latest"} {
		fmt.Println(server.Admission.(*pluginset.Set).Validators[0] != nil, check(set, image))
	}
	// Output:
	// true <nil>
	// true pods "web" is forbidden: nginx:latest changes
}

// check asks the plugin NoLatest alone: the other plugins need a server.
func check(set *pluginset.Set, image string) error {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
	r := &admission.Request{
		Operation: admission.Create, Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "web", Object: pod,
		User: &user.Info{Name: user.APIServer},
	}
	for _, v := range set.Validators {
		if err := v.Validate(context.Background(), r); err != nil && strings.Contains(err.Error(), "changes") {
			return err
		}
	}
	return nil
}

func noLatest(_ context.Context, r *admission.Request) error {
	pod, ok := r.Object.(*corev1.Pod)
	if ok && strings.HasSuffix(pod.Spec.Containers[0].Image, ":latest") {
		return admission.Forbidden(r, errors.New(pod.Spec.Containers[0].Image+" changes"))
	}
	return nil
}

// newConfig returns the configuration of plugins whose caches are never started.
func newConfig() (pluginset.Config, error) {
	api, err := client.New(client.InProcess(client.TransportFunc(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no server")
	})))
	if err != nil {
		return pluginset.Config{}, err
	}
	all, err := caches.New(api, logr.Discard())
	if err != nil {
		return pluginset.Config{}, err
	}
	set, err := authorizers.New(authorizers.Config{Caches: all})
	return pluginset.Config{Client: api, Caches: all, Authorizers: set}, err
}

// TestDefaults makes every plugin of the table, first those on by default and then all others.
func TestDefaults(t *testing.T) {
	config, err := newConfig()
	if err != nil {
		t.Fatal(err)
	}
	some, err := pluginset.New(config)
	if err != nil {
		t.Fatal(err)
	}
	config.Enable = []string{"NodeRestriction", "AlwaysPullImages", "SecurityContextDeny", "Initializers"}
	more, err := pluginset.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if len(more.Mutators)+len(more.Validators) <= len(some.Mutators)+len(some.Validators) {
		t.Errorf("%d and %d plugins by default, %d and %d with all", len(some.Mutators), len(some.Validators), len(more.Mutators), len(more.Validators))
	}
	server := apiserver.Config{}
	more.Configure(&server)
	if server.Initializers == nil || len(server.Resources) != 1 {
		t.Errorf("the API server has the initializers %v and %d resources", server.Initializers, len(server.Resources))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for want, options := range map[string]pluginset.Options{
		"NoSuchPlugin":   {Enable: []string{"NoSuchPlugin"}},
		"LimitRanger":    {Enable: []string{"LimitRanger"}, Disable: []string{"LimitRanger"}},
		"EventRateLimit": {Enable: []string{"EventRateLimit"}}, // it has no configuration
		"it cannot work": {More: []plugins.Plugin{{Name: "Own", New: func([]byte) (any, error) { return nil, errors.New("it cannot work") }}}},
	} {
		config, err := newConfig()
		if err != nil {
			t.Fatal(err)
		}
		config.Options = options
		if _, err := pluginset.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
