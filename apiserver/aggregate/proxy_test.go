package aggregate

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/kinds/apiregistration"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestIdentifyTo checks that the other server receives the authenticated user, and no
// identity header that the client sent.
func TestIdentifyTo(t *testing.T) {
	h := http.Header{
		"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}, "X_remote_uid": {"0"}, "x-remote-extra-a": {"b"}, "X-Remote-Other": {"c"},
		"Authorization": {"Bearer secret"}, "Impersonate-User": {"root"}, "Impersonate_group": {"d"}, "Accept": {"application/json"},
	}
	identifyTo(h, &user.Info{Name: "jane", UID: "7", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"example.com/scope%": {"read", "write"}}})
	want := http.Header{
		"X-Remote-User": {"jane"}, "X-Remote-Uid": {"7"}, "X-Remote-Group": {"dev", "ops"}, "Accept": {"application/json"},
		http.CanonicalHeaderKey("X-Remote-Extra-example.com%2Fscope%25"): {"read", "write"},
	}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%v, want %v", h, want)
	}
	h = http.Header{}
	identifyTo(h, &user.Info{Name: "jane"})
	if len(h) != 1 {
		t.Errorf("of a user with nothing but a name: %v", h)
	}
}

// TestForget: connections of what an APIService no longer leads to are given up,
// and there are none any more after the end.
func TestForget(t *testing.T) {
	a := &Aggregator{transports: map[identity]*http.Transport{}}
	service := &apiregistration.APIService{Spec: apiregistration.APIServiceSpec{
		Group: "a", Version: "v1", Service: &apiregistration.ServiceReference{Namespace: "n", Name: "s"}, InsecureSkipTLSVerify: true,
	}}
	before := a.backendOf(service)
	service.Spec.InsecureSkipTLSVerify = false
	after := a.backendOf(service)
	for _, b := range []*backend{before, after, before} {
		for _, upgrade := range []bool{true, false} {
			if _, err := b.transport(upgrade); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(a.transports); n != 4 {
		t.Errorf("%d transports", n)
	}
	current := &table{backends: map[schema.GroupVersion]*backend{after.gv: after}}
	a.forget(current)
	if n := len(a.transports); n != 2 || a.transports[after.identity(true)] == nil {
		t.Errorf("%d transports after a change", n)
	}
	a.close()
	if _, err := after.transport(false); err != errClosed || len(a.transports) != 0 {
		t.Errorf("after the end: %v, %d transports", err, len(a.transports))
	}
}
