package customresources_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// house is a plane with the definition of lamps.
type house struct {
	t *testing.T
	p *planetest.Plane
}

const lampPath = "/apis/example.com/v1/namespaces/default/lamps"

func startHouse(t *testing.T) house {
	t.Helper()
	definitions, err := customresources.Parse([]byte(lamps))
	if err != nil {
		t.Fatal(err)
	}
	return house{t, planetest.Start(t, planetest.CustomResources(definitions[0]))}
}

func (h house) do(method, path, body string) (string, error) {
	response, err := h.p.Client().Do(h.t.Context(), client.Request{Method: method, Path: path, Body: []byte(body)})
	return string(response.Body), err
}

// lamp creates a lamp with owners, and returns a reference to it.
func (h house) lamp(name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	h.t.Helper()
	references, err := json.Marshal(owners)
	if err != nil {
		h.t.Fatal(err)
	}
	if owners == nil {
		references = []byte("[]")
	}
	body, err := h.do("POST", lampPath, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":%q,"ownerReferences":%s}}`, name, references))
	if err != nil {
		h.t.Fatal(err)
	}
	var made metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &made); err != nil {
		h.t.Fatal(err)
	}
	return reference("example.com/v1", "Lamp", name, made.UID)
}

func reference(version, kind, name string, uid types.UID) metav1.OwnerReference {
	block := true
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: uid, BlockOwnerDeletion: &block}
}

// configMap creates a config map with owners, and returns a reference to it.
func (h house) configMap(name string, finalizers []string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	h.t.Helper()
	made, err := typed.ConfigMaps(h.p.Client()).Create(h.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, OwnerReferences: owners, Finalizers: finalizers,
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	return reference("v1", "ConfigMap", name, made.UID)
}

func (h house) delete(name, policy string) {
	h.t.Helper()
	if _, err := h.do("DELETE", lampPath+"/"+name, fmt.Sprintf(`{"propagationPolicy":%q}`, policy)); err != nil {
		h.t.Fatal(err)
	}
}

func (h house) eventuallyGone(paths ...string) {
	h.t.Helper()
	planetest.Eventually(h.t, func() error {
		for _, path := range paths {
			if body, err := h.do("GET", path, ""); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %s %v", path, body, err)
			}
		}
		return nil
	})
}

const mapPath = "/api/v1/namespaces/default/configmaps/"

// TestOwners: custom objects own and are owned, in each way to delete, and also when their definition is deleted.
func TestOwners(t *testing.T) {
	h := startHouse(t)

	// In the background: a lamp, a config map of it, a lamp of that.
	top := h.lamp("top")
	h.lamp("below", h.configMap("between", nil, top))
	h.delete("top", "Background")
	h.eventuallyGone(lampPath+"/top", mapPath+"between", lampPath+"/below")

	// In the foreground: the owner waits for what blocks it.
	h.configMap("last", []string{"example.com/wait"}, h.lamp("first"))
	h.configMap("marker", nil, reference("v1", "ConfigMap", "nobody", "no-such-uid"))
	h.eventuallyGone(mapPath + "marker") // so the collector has seen those before it
	h.delete("first", "Foreground")
	planetest.Eventually(t, func() error {
		if body, err := h.do("GET", mapPath+"last", ""); err != nil || !strings.Contains(body, "deletionTimestamp") {
			return fmt.Errorf("%s %v", body, err)
		}
		return nil
	})
	if body, err := h.do("GET", lampPath+"/first", ""); err != nil || !strings.Contains(body, "foregroundDeletion") {
		t.Errorf("it does not wait: %s %v", body, err)
	}
	if _, err := typed.ConfigMaps(h.p.Client()).Patch(t.Context(), "default", "last", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)); err != nil {
		t.Fatal(err)
	}
	h.eventuallyGone(mapPath+"last", lampPath+"/first")

	// Orphans stay, without the owner.
	h.lamp("orphan", h.lamp("parent"))
	h.delete("parent", "Orphan")
	h.eventuallyGone(lampPath + "/parent")
	if body, err := h.do("GET", lampPath+"/orphan", ""); err != nil || strings.Contains(body, "ownerReferences") {
		t.Errorf("GET of the orphan = %s, %v, want it without ownerReferences", body, err)
	}

	// An owner that there never was.
	h.lamp("lost", reference("example.com/v1", "Lamp", "nobody", "no-such-uid"))
	h.eventuallyGone(lampPath + "/lost")

	// All lamps go with their definition, and what they own.
	h.configMap("left", nil, h.lamp("owner"))
	if _, err := h.do("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.example.com", ""); err != nil {
		t.Fatal(err)
	}
	h.eventuallyGone(mapPath + "left")
	planetest.Eventually(t, func() error {
		n := 0
		for range h.p.Caches.Custom.Objects.All() {
			n++
		}
		for range h.p.Caches.Custom.Kinds.All() {
			n++
		}
		if n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	t.Run("conversion fails", func(t *testing.T) { testDeadConversion(t, h) })
}

// TestQuota: custom objects are counted, also those of a definition that is newer than the quota.
func TestQuota(t *testing.T) {
	p := planetest.Start(t, planetest.CustomResources())
	h := house{t, p}
	quotas := typed.ResourceQuotas(p.Client())
	if _, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/lamps.example.com": resource.MustParse("2")}},
	}); err != nil {
		t.Fatal(err)
	}
	definitions, err := customresources.Parse([]byte(lamps))
	if err != nil {
		t.Fatal(err)
	}
	if err := customresources.Install(t.Context(), p.Client(), definitions...); err != nil {
		t.Fatal(err)
	}
	used := func(want int64) {
		t.Helper()
		planetest.Eventually(t, func() error {
			q, err := quotas.Get(t.Context(), "default", "few")
			if err != nil {
				return err
			}
			if got, ok := q.Status.Used["count/lamps.example.com"]; !ok || got.Value() != want {
				return fmt.Errorf("used: %v, want %d", q.Status.Used, want)
			}
			return nil
		})
	}
	used(0)
	planetest.Eventually(t, func() error { // admission reads a cache, too
		_, err := h.do("POST", lampPath, `{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"a"}}`)
		return err
	})
	h.lamp("b")
	used(2)
	_, err = h.do("POST", lampPath, `{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"c"}}`)
	if want := `lamps.example.com "c" is forbidden: exceeded quota: few, requested: count/lamps.example.com=1, used: count/lamps.example.com=2, limited: count/lamps.example.com=2`; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	h.delete("a", "Background")
	used(1)
	planetest.Eventually(t, func() error {
		_, err := h.do("POST", lampPath, `{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"c"}}`)
		return err
	})
	used(2)
}

// TestVersionGoes: objects are followed on in another version when theirs is no longer served.
func TestVersionGoes(t *testing.T) {
	h := startHouse(t)
	h.configMap("dependent", nil, h.lamp("owner"))
	definitions, err := customresources.Parse([]byte(lamps))
	if err != nil {
		t.Fatal(err)
	}
	next := definitions[0].Spec.Versions[0]
	next.Name = "v2"
	definitions[0].Spec.Versions[0].Served, definitions[0].Spec.Versions[0].Storage = false, false
	definitions[0].Spec.Versions = append(definitions[0].Spec.Versions, next)
	if err := customresources.Install(t.Context(), h.p.Client(), definitions...); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		k, ok := h.p.Caches.Custom.Find("example.com", "Lamp")
		if !ok || k.Version != "v2" {
			return fmt.Errorf("the kind is %v", k)
		}
		return nil
	})
	if _, err := h.do("DELETE", strings.Replace(lampPath, "v1", "v2", 1)+"/owner", ""); err != nil {
		t.Fatal(err)
	}
	h.eventuallyGone(mapPath + "dependent")
}

// TestPolicy: a policy decides on custom objects as on any.
func TestPolicy(t *testing.T) {
	h := startHouse(t)
	policies, bindings := typed.ValidatingAdmissionPolicies(h.p.Client()), typed.ValidatingAdmissionPolicyBindings(h.p.Client())
	if _, err := policies.Create(t.Context(), parse[admissionv1.ValidatingAdmissionPolicy](t, `
metadata: {name: red}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [lamps]}]}
  validations: [{expression: object.color == 'red', message: only red}]
`)); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), parse[admissionv1.ValidatingAdmissionPolicyBinding](t, `
metadata: {name: red}
spec: {policyName: red, validationActions: [Deny]}
`)); err != nil {
		t.Fatal(err)
	}
	n := 0
	planetest.Eventually(t, func() error { // the policy is read from a cache
		n++
		_, err := h.do("POST", lampPath, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"l%d"},"color":"blue"}`, n))
		want := fmt.Sprintf(`lamps.example.com "l%d" is forbidden: ValidatingAdmissionPolicy 'red' with binding 'red' denied request: only red`, n)
		if err == nil || err.Error() != want {
			return fmt.Errorf("%v, want %s", err, want)
		}
		return nil
	})
	h.lamp("red")
}
