package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bulb is the stored version of a kind, and OldBulb the version before it: what was one field
// is two.
type (
	Bulb struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Spec              BulbSpec   `json:"spec"`
		Status            BulbStatus `json:"status,omitempty"`
	}
	BulbSpec struct {
		Color string `json:"color"`
		Watts int32  `json:"watts"`
	}
	BulbStatus struct {
		Hours int64 `json:"hours,omitempty"`
	}
	OldBulb struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Light             string     `json:"light"` // color:watts
		Status            BulbStatus `json:"status,omitempty"`
	}
)

func (l *Bulb) DeepCopyObject() runtime.Object {
	return &Bulb{l.TypeMeta, *l.ObjectMeta.DeepCopy(), l.Spec, l.Status}
}

func (l *OldBulb) DeepCopyObject() runtime.Object {
	return &OldBulb{l.TypeMeta, *l.ObjectMeta.DeepCopy(), l.Light, l.Status}
}

var bulbKind = kind.Define(kind.Kind[*Bulb]{
	Group: "example.com", Version: "v1", Kind: "Bulb", Plural: "bulbs", Namespaced: true,
	Versions: []kind.Version{kind.NewVersion("v1alpha1", fillBulb, fillOldBulb)},
})

func fillBulb(old *OldBulb, l *Bulb) error {
	color, watts, ok := strings.Cut(old.Light, ":")
	if _, err := fmt.Sscan(watts, &l.Spec.Watts); ok && err != nil {
		return fmt.Errorf("light %q is not color:watts", old.Light)
	}
	l.Spec.Color, l.Status = color, old.Status
	return nil
}

func fillOldBulb(l *Bulb, old *OldBulb) error {
	if strings.Contains(l.Spec.Color, ":") {
		return errors.New("a color with a colon has no old form")
	}
	old.Light, old.Status = fmt.Sprintf("%s:%d", l.Spec.Color, l.Spec.Watts), l.Status
	return nil
}

// bulbs are served in v1, in which they are stored, and in v1alpha1.
func bulbs() apiserver.Resource {
	strategy, status := apiserver.SpecStatus(
		func(l *Bulb) *BulbSpec { return &l.Spec },
		func(l *Bulb) *BulbStatus { return &l.Status })
	strategy.Default = func(obj runtime.Object) {
		if l := obj.(*Bulb); l.Spec.Watts == 0 {
			l.Spec.Watts = 60
		}
	}
	strategy.Validate = func(_ context.Context, obj runtime.Object) field.ErrorList {
		if w := obj.(*Bulb).Spec.Watts; w < 0 {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "watts"), w, "must not be negative")}
		}
		return nil
	}
	color := func(obj runtime.Object) string { return obj.(*Bulb).Spec.Color }
	return apiserver.For(bulbKind, apiserver.Resource{
		Strategy: strategy,
		Columns:  []apiserver.Column{{Name: "Color", Type: "string", Value: func(obj runtime.Object) any { return color(obj) }}},
		Fields:   map[string]func(runtime.Object) string{"spec.color": color},
		Subresources: []apiserver.Subresource{status, apiserver.View{
			Name: "scale", Verbs: []string{"get", "update", "patch"}, Replicas: "spec.watts",
			Group: "autoscaling", Version: "v1", Kind: "Scale",
			New: func() runtime.Object { return &autoscalingv1.Scale{} },
			From: func(parent runtime.Object) (runtime.Object, error) {
				l := parent.(*Bulb)
				return &autoscalingv1.Scale{ObjectMeta: l.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: l.Spec.Watts}}, nil
			},
			Into: func(parent, body runtime.Object) error {
				parent.(*Bulb).Spec.Watts = body.(*autoscalingv1.Scale).Spec.Replicas
				return nil
			},
		}},
	})
}

const (
	bulbPath    = "/apis/example.com/v1/namespaces/default/bulbs"
	oldBulbPath = "/apis/example.com/v1alpha1/namespaces/default/bulbs"
)

func bulb(name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Bulb","metadata":{"name":%q},"spec":%s}`, name, spec)
}

func oldBulb(name, light string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1alpha1","kind":"Bulb","metadata":{"name":%q},"light":%q}`, name, light)
}

// shows fails the test unless path has the bulb with want in its JSON.
func (a *api) shows(path, want string) answer {
	a.t.Helper()
	got := a.want(a.do("GET", path, ""), 200, "")
	if !strings.Contains(got.body, want) {
		a.t.Fatalf("%s is %s\nwithout %s", path, got.body, want)
	}
	return got
}

func startBulbs(t *testing.T) *api { return start(t, apiservertest.WithResources(bulbs())) }

func TestVersionsWrite(t *testing.T) {
	a := startBulbs(t)
	a.create(oldBulbPath, oldBulb("a", "red:40"))
	a.shows(bulbPath+"/a", `"spec":{"color":"red","watts":40}`)
	if got := a.shows(oldBulbPath+"/a", `"light":"red:40"`); !strings.Contains(got.body, `"apiVersion":"example.com/v1alpha1"`) ||
		!strings.Contains(got.body, `"generation":1`) {
		t.Errorf("v1alpha1 is %s", got.body)
	}
	a.create(bulbPath, bulb("b", `{"color":"blue"}`))
	a.shows(oldBulbPath+"/b", `"light":"blue:60"`)
	if got := a.create(oldBulbPath, oldBulb("c", "green:0")); !strings.Contains(got.body, "green:60") {
		t.Errorf("no default of the stored version in %s", got.body)
	}

	a.want(a.do("PUT", oldBulbPath+"/a", oldBulb("a", "red:41")), 200, "")
	a.shows(bulbPath+"/a", `"watts":41`)
	a.want(a.do("PUT", bulbPath+"/a", bulb("a", `{"color":"red","watts":42}`)), 200, "")
	a.shows(oldBulbPath+"/a", `"light":"red:42"`)

	// A patch is applied to the version that it was sent to.
	a.want(a.do("PATCH", oldBulbPath+"/a", `{"light":"pink:43"}`, mergePatch), 200, "")
	a.want(a.do("PATCH", oldBulbPath+"/a", `[{"op":"test","path":"/light","value":"pink:43"},{"op":"replace","path":"/light","value":"pink:44"}]`, jsonPatch), 200, "")
	a.want(a.do("PATCH", bulbPath+"/a", `{"spec":{"watts":45}}`, strategicPatch), 200, "")
	if got := a.shows(oldBulbPath+"/a", `"light":"pink:45"`); !strings.Contains(got.body, `"generation":6`) {
		t.Errorf("generation of %s", got.body)
	}

	// Status and scale work on the stored version.
	a.want(a.do("PATCH", oldBulbPath+"/a/status", `{"status":{"hours":7},"light":"black:1"}`, mergePatch), 200, "")
	a.shows(bulbPath+"/a", `"status":{"hours":7}`)
	a.shows(bulbPath+"/a", `"watts":45`)
	a.want(a.do("PATCH", oldBulbPath+"/a/scale", `{"spec":{"replicas":46}}`, mergePatch), 200, "")
	a.shows(oldBulbPath+"/a", `"light":"pink:46"`)

	a.want(a.do("DELETE", oldBulbPath+"/a", ""), 200, "")
	a.want(a.do("GET", bulbPath+"/a", ""), 404, "")
	if got := a.want(a.do("DELETE", oldBulbPath, ""), 200, ""); !strings.Contains(got.body, "blue:60") {
		t.Errorf("deleted %s", got.body)
	}
	a.want(a.do("GET", bulbPath+"/b", ""), 404, "")
}

// TestVersionsRefuse: an object that cannot be converted is the client's error where it is
// written, and is like one that cannot be decoded where it is read.
func TestVersionsRefuse(t *testing.T) {
	a := startBulbs(t)
	a.want(a.do("POST", oldBulbPath, oldBulb("a", "red:x")), 400, `light "red:x" is not color:watts`)
	a.want(a.do("POST", oldBulbPath, oldBulb("a", "red:-1")), 422, "must not be negative")
	a.want(a.do("POST", oldBulbPath, bulb("a", "{}")), 400, "does not match the expected API version (example.com/v1alpha1)")
	a.create(oldBulbPath, oldBulb("a", "red:1"))
	a.want(a.do("PATCH", oldBulbPath+"/a", `{"light":"red:x"}`, mergePatch), 422, "is not color:watts")
	a.create(bulbPath, bulb("b", `{"color":"x:y"}`))
	a.want(a.do("GET", oldBulbPath+"/b", ""), 500, "no old form")
	got := a.shows(oldBulbPath, "red:1")
	if !strings.Contains(got.header.Get("Warning"), "/bulbs/default/b cannot be decoded") {
		t.Errorf("warning %q", got.header.Get("Warning"))
	}
}

func TestVersionsRead(t *testing.T) {
	a := startBulbs(t)
	a.create(bulbPath, bulb("a", `{"color":"red","watts":40}`))
	a.create(oldBulbPath, oldBulb("b", "blue:50"))
	got := a.shows(oldBulbPath, `"kind":"BulbList","apiVersion":"example.com/v1alpha1"`)
	for _, want := range []string{"red:40", "blue:50"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("no %s in %s", want, got.body)
		}
	}
	if got := a.shows(oldBulbPath+"?fieldSelector=spec.color%3Dblue", "blue:50"); strings.Contains(got.body, "red") {
		t.Errorf("selected %s", got.body)
	}
	page := into[metav1.List](t, a.shows(oldBulbPath+"?limit=1", "red:40"))
	if got := a.shows(bulbPath+"?limit=1&continue="+page.Continue, `"color":"blue"`); strings.Contains(got.body, "red") {
		t.Errorf("second page %s", got.body)
	}
	table := a.want(a.do("GET", oldBulbPath, "", "Accept: "+tableMedia), 200, "")
	if !strings.Contains(table.body, `"cells":["a","red"]`) {
		t.Errorf("table %s", table.body)
	}
	metadata := a.want(a.do("GET", oldBulbPath, "", "Accept: "+partialMedia), 200, "")
	if !strings.Contains(metadata.body, `"name":"b"`) || strings.Contains(metadata.body, `"light":`) {
		t.Errorf("metadata %s", metadata.body)
	}

	r, err := http.NewRequestWithContext(t.Context(), "GET", a.base+oldBulbPath+"?watch=true&resourceVersion="+page.ResourceVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := bufio.NewScanner(response.Body)
	a.want(a.do("PATCH", bulbPath+"/a", `{"spec":{"watts":41}}`, mergePatch), 200, "")
	a.want(a.do("DELETE", bulbPath+"/b", ""), 200, "")
	for _, want := range []string{`{"type":"MODIFIED",.*red:41`, `{"type":"DELETED",.*blue:50`} {
		kind, light, _ := strings.Cut(want, ".*")
		if !events.Scan() || !strings.HasPrefix(events.Text(), kind) || !strings.Contains(events.Text(), light) {
			t.Errorf("event %q, want %q", events.Text(), want)
		}
	}
}

// TestVersionsOwn: each entry of managedFields has the version that was written, and what a
// manager owns in one version conflicts with what another applies in the other.
func TestVersionsOwn(t *testing.T) {
	a := startBulbs(t)
	apply := func(path, manager, body string, code int, message string) {
		t.Helper()
		a.want(a.do("PATCH", path+"/a?fieldManager="+manager, body, "Content-Type: application/apply-patch+yaml"), code, message)
	}
	a.want(a.do("POST", bulbPath+"?fieldManager=maker", bulb("a", `{"color":"red","watts":40}`)), 201, "")
	apply(oldBulbPath, "old", oldBulb("a", "red:41"), 409, `conflict with "maker" using example.com/v1`)
	a.want(a.do("PATCH", oldBulbPath+"/a?fieldManager=old&force=true", oldBulb("a", "red:41"), "Content-Type: application/apply-patch+yaml"), 200, "")
	a.want(a.do("PATCH", oldBulbPath+"/a?fieldManager=editor", `{"metadata":{"labels":{"x":"y"}}}`, mergePatch), 200, "")
	entries := map[string]string{}
	obj := into[Bulb](t, a.shows(bulbPath+"/a", `"watts":41`))
	for _, e := range obj.ManagedFields {
		entries[e.Manager+" "+e.APIVersion] = e.FieldsV1.GetRawString()
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"old example.com/v1alpha1", "editor example.com/v1alpha1"} {
		if entries[want] == "" {
			t.Errorf("no entry of %s in %s", want, text)
		}
	}
	if !strings.Contains(entries["old example.com/v1alpha1"], "f:light") {
		t.Errorf("old owns %s", text)
	}
	apply(bulbPath, "new", bulb("a", `{"watts":50}`), 409, `conflict with "old": .light`)
	apply(bulbPath, "created", bulb("a", `{"color":"red"}`), 200, "")
}

func TestVersionsAreDiscovered(t *testing.T) {
	a := startBulbs(t)
	group := into[metav1.APIGroup](t, a.do("GET", "/apis/example.com", ""))
	if len(group.Versions) != 2 || group.PreferredVersion.Version != "v1" {
		t.Errorf("group %v", group)
	}
	for _, path := range []string{"/apis/example.com/v1alpha1", "/apis/example.com/v1"} {
		list := into[metav1.APIResourceList](t, a.do("GET", path, ""))
		if len(list.APIResources) != 3 || list.APIResources[0].Kind != "Bulb" {
			t.Errorf("%s has %v", path, list.APIResources)
		}
	}
	a.shows("/openapi/v3/apis/example.com/v1alpha1", `"light":`)
	a.shows("/openapi/v3/apis/example.com/v1", `"watts":`)
	v2 := a.shows("/openapi/v2", `"light":`)
	if !strings.Contains(v2.body, `"watts":`) {
		t.Error("OpenAPI v2 has no v1")
	}
}

func TestVersionsAreChecked(t *testing.T) {
	for message, change := range map[string]func(*apiserver.Resource){
		"To and From must be set": func(r *apiserver.Resource) { r.Versions[0].From = nil },
		"given twice":             func(r *apiserver.Resource) { r.Versions[0].Name = "v1" },
		"version is given twice": func(r *apiserver.Resource) {
			k := bulbKind
			k.Versions = append(k.Versions[:1:1], k.Versions[0])
			*r = apiserver.For(k, apiserver.Resource{})
		},
		"NewList, To and From": func(r *apiserver.Resource) {
			k := bulbKind
			k.Versions = []kind.Version{{Name: "v1alpha1", New: k.Versions[0].New, NewList: k.NewList}}
			*r = apiserver.For(k, apiserver.Resource{})
		},
		"has no versions": func(r *apiserver.Resource) { r.StoredAs = &apiserver.StoredForm{} },
	} {
		r := bulbs()
		change(&r)
		_, err := apiserver.New(apiserver.Config{
			Store: memstore.New(), Resources: []apiserver.Resource{r},
			Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, nil }),
			Authorizer:    authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Deny, "", nil }),
		})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("error %v, want %q", err, message)
		}
	}
}

// TestVersionsOfKind checks what For adds to the versions of a kind.
func TestVersionsOfKind(t *testing.T) {
	column := []apiserver.Column{{Name: "Light", Type: "string", Value: func(obj runtime.Object) any { return obj.(*OldBulb).Light }}}
	given := []apiserver.Version{{Name: "v1beta1"}, {Name: "v1alpha1", Columns: column}}
	r := apiserver.For(bulbKind, apiserver.Resource{Versions: given})
	if len(r.Versions) != 2 || r.Versions[0].Name != "v1alpha1" || r.Versions[1].Name != "v1beta1" {
		t.Fatalf("versions %+v", r.Versions)
	}
	if given[0].Name != "v1beta1" || given[1].New != nil {
		t.Errorf("For has changed its argument: %+v", given)
	}
	r.Versions = r.Versions[:1]
	a := start(t, apiservertest.WithResources(r))
	a.create(bulbPath, bulb("a", `{"color":"red","watts":40}`))
	for path, want := range map[string]string{oldBulbPath: `"cells":["a","red:40"]`, bulbPath: `"cells":["a","`} {
		table := a.want(a.do("GET", path, "", "Accept: "+tableMedia), 200, "")
		if !strings.Contains(table.body, want) {
			t.Errorf("table %s", table.body)
		}
	}
}

// TestVersionsStoredBefore: a server that stores objects in another version than the one before it
// serves what that has stored.
func TestVersionsStoredBefore(t *testing.T) {
	store := memstore.New()
	with := func(r apiserver.Resource) *api {
		return start(t, apiservertest.WithResources(r), apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = store }))
	}
	before := with(apiserver.For(kind.In[*OldBulb](bulbKind, "v1alpha1"), apiserver.Resource{}))
	before.create(oldBulbPath, oldBulb("a", "red:40"))
	before.create(oldBulbPath, oldBulb("b", "blue:0"))
	before.create(oldBulbPath, oldBulb("c", "red:x"))
	// stored returns the object's record; it is JSON.
	stored := func(name string) string {
		t.Helper()
		record, err := store.Get(t.Context(), storage.Key("/registry/example.com/bulbs/default/"+name), 0)
		if err != nil {
			t.Fatal(err)
		}
		return string(record.Value)
	}

	a := with(bulbs())
	a.shows(bulbPath+"/a", `"spec":{"color":"red","watts":40}`)
	a.shows(bulbPath+"/b", `"spec":{"color":"blue","watts":60}`) // a default of the stored version
	a.shows(oldBulbPath+"/a", `"apiVersion":"example.com/v1alpha1"`)
	a.shows(oldBulbPath+"/b", `"light":"blue:60"`)
	a.want(a.do("GET", bulbPath+"/c", ""), 500, "is not color:watts")
	for path, want := range map[string]string{bulbPath: `"color":"red"`, oldBulbPath: `"light":"red:40"`} {
		if list := a.shows(path, want); !strings.Contains(list.header.Get("Warning"), "/bulbs/default/c cannot be decoded") {
			t.Errorf("warning %q", list.header.Get("Warning"))
		}
	}
	if is := stored("a"); !strings.Contains(is, `"apiVersion":"example.com/v1alpha1"`) {
		t.Fatalf("the first server has stored %s", is)
	}

	// A write that changes nothing stores the object in the new version.
	a.want(a.do("PATCH", bulbPath+"/a", `{}`, mergePatch), 200, "")
	if is := stored("a"); !strings.Contains(is, `"apiVersion":"example.com/v1"`) || !strings.Contains(is, `"watts":40`) {
		t.Errorf("the second server has stored %s", is)
	}
	a.want(a.do("PATCH", oldBulbPath+"/b", `{"light":"green:7"}`, mergePatch), 200, "")
	if is := stored("b"); !strings.Contains(is, `"spec":{"color":"green","watts":7}`) {
		t.Errorf("the second server has stored %s", is)
	}
	a.want(a.do("DELETE", bulbPath+"/a", ""), 200, "")
}
