package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestCreateSetsWhatOnlyTheServerMay(t *testing.T) {
	a := start(t)
	sent := strings.Replace(configMap("web", `,"data":{"k":"v"}`), `"name"`,
		`"uid":"mine","creationTimestamp":"2001-01-01T00:00:00Z","generation":9,"selfLink":"x","deletionTimestamp":"2001-01-01T00:00:00Z","name"`, 1)
	got := into[corev1.ConfigMap](t, a.create(configPath, sent))
	if got.UID == "mine" || got.UID == "" || got.CreationTimestamp.Year() < 2020 || got.GetSelfLink() != "" ||
		got.DeletionTimestamp != nil || got.ResourceVersion == "" || got.Namespace != "default" {
		t.Errorf("metadata: %+v", got.ObjectMeta)
	}
	if got.Kind != "ConfigMap" || got.APIVersion != "v1" || got.Data["k"] != "v" {
		t.Errorf("object: %+v", got)
	}
	again := into[corev1.ConfigMap](t, a.want(a.do("GET", configPath+"/web", ""), 200, ""))
	if again.UID != got.UID || again.ResourceVersion != got.ResourceVersion || !again.CreationTimestamp.Equal(&got.CreationTimestamp) {
		t.Errorf("read back %+v, created %+v", again.ObjectMeta, got.ObjectMeta)
	}
	d := into[appsv1.Deployment](t, a.create(deployPath, strings.Replace(deployment("d", 1), `"replicas":1,`, "", 1)))
	if *d.Spec.Replicas != 1 || d.Generation != 1 {
		t.Errorf("defaults: replicas %d, generation %d", *d.Spec.Replicas, d.Generation)
	}
}

func TestCreateRefuses(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("taken", ""))
	for _, c := range []struct {
		name, path, body, header string
		code                     int
		text                     string
	}{
		{"taken", configPath, configMap("taken", ""), "", 409, `configmaps "taken" already exists`},
		{"truncated", configPath, `{"kind":"ConfigMap","metadata"`, "", 400, ""},
		{"empty", configPath, ``, "", 400, ""},
		{"not an object", configPath, `[1]`, "", 400, ""},
		{"other kind", configPath, pod("x", ""), "", 400, `Pod in version "v1" cannot be handled as a ConfigMap`},
		{"other version", configPath, `{"apiVersion":"v2","kind":"ConfigMap"}`, "", 400, "the API version in the data (v2) does not match the expected API version (v1)"},
		{"other namespace", configPath, configMap("x", "")[:len(configMap("x", ""))-2] + `,"namespace":"other"}}`, "", 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"resourceVersion", configPath, `{"metadata":{"name":"x","resourceVersion":"1"}}`, "", 400, "resourceVersion should not be set on objects to be created"},
		{"resourceVersion of an invalid object", configPath, `{"metadata":{"name":"A_b","resourceVersion":"1"}}`, "", 422, `ConfigMap "A_b" is invalid: metadata.name: Invalid value`},
		{"no name", configPath, `{"metadata":{}}`, "", 422, `ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"bad name", configPath, configMap("A_b", ""), "", 422, `ConfigMap "A_b" is invalid: metadata.name: Invalid value`},
		{"254 letters", configPath, configMap(strings.Repeat("a", 254), ""), "", 422, "must be no more than 253"},
		{"strategy", deployPath, deployment("d", -1), "", 422, `Deployment.apps "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`},
		{"invalid UTF-8", configPath, "{\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"\xff\"}}", "", 400, "UTF-8"},
		{"deep nesting", configPath, `{"metadata":{"name":"x"},"data":` + strings.Repeat(`[`, 10000) + strings.Repeat(`]`, 10000) + `}`, "", 400, ""},
		{"too large", configPath, configMap("x", `,"data":{"a":"`+strings.Repeat("a", 3<<20)+`"}`), "", 413, "limit is 3145728"},
		{"content type", configPath, configMap("x", ""), "Content-Type: text/plain", 415, "accepted media types include"},
		{"patch type", configPath, configMap("x", ""), mergePatch, 415, ""},
		{"alias bomb", configPath, aliasBomb(), "Content-Type: application/yaml", 400, ""},
		{"not protobuf", configPath, configMap("x", ""), "Content-Type: application/vnd.kubernetes.protobuf", 400, ""},
		{"dry run of what", configPath + "?dryRun=Some", configMap("x", ""), "", 422, "dryRun"},
		{"field validation", configPath + "?fieldValidation=No", configMap("x", ""), "", 422, "fieldValidation"},
		{"on an object", configPath + "/x", configMap("x", ""), "", 405, ""},
		{"all namespaces", "/api/v1/configmaps", configMap("x", ""), "", 405, "the server does not allow this method on the requested resource"},
		{"unknown resource", "/api/v1/namespaces/default/widgets", `{}`, "", 404, "the server could not find the requested resource"},
		{"unknown version", "/apis/apps/v9/namespaces/default/deployments", `{}`, "", 404, "the server could not find the requested resource"},
		{"unknown group", "/apis/nowhere/v1/namespaces/default/widgets", `{}`, "", 404, "404 page not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			var headers []string
			if c.header != "" {
				headers = append(headers, c.header)
			}
			a.want(a.do("POST", c.path, c.body, headers...), c.code, c.text)
		})
	}
	if names := a.do("GET", configPath, ""); strings.Count(names.body, `"name"`) != 1 {
		t.Errorf("refused objects were stored: %s", names.body)
	}
}

func aliasBomb() string {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		ref := "*a" + string(rune('0'+i-1))
		bomb += "a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(ref+",", 8) + ref + "]\n"
	}
	return bomb
}

func TestCreateLongestName(t *testing.T) {
	start(t).create(configPath, configMap(strings.Repeat("a", 253), ""))
}

func TestCreateUnknownFields(t *testing.T) {
	a := start(t)
	body := configMap("x", `,"dato":{"a":"b"},"data":{"k":"1"},"data":{"k":"2"}`)
	a.want(a.do("POST", configPath+"?fieldValidation=Strict", body), 400, `strict decoding error: unknown field "dato"`)
	warned := a.want(a.do("POST", configPath+"?dryRun=All", body), 201, "")
	if got := strings.Join(warned.header.Values("Warning"), "|"); !strings.Contains(got, `299 - "unknown field \"dato\""`) || !strings.Contains(got, "duplicate field") {
		t.Errorf("warnings: %s", got)
	}
	ignored := a.want(a.do("POST", configPath+"?fieldValidation=Ignore", body), 201, "")
	if got := ignored.header.Values("Warning"); len(got) > 0 {
		t.Errorf("warnings though ignored: %s", got)
	}
	yaml := "metadata:\n  name: why\ndato: 1\n"
	a.want(a.do("POST", configPath+"?fieldValidation=Strict", yaml, "Content-Type: application/yaml"), 400, `unknown field "dato"`)
}

func TestCreateDryRunStoresNothing(t *testing.T) {
	a := start(t)
	a.want(a.do("POST", configPath+"?dryRun=All", configMap("x", "")), 201, `"name":"x"`)
	a.want(a.do("GET", configPath+"/x", ""), 404, `configmaps "x" not found`)
	a.create(configPath, configMap("x", ""))
	a.want(a.do("POST", configPath+"?dryRun=All", configMap("x", "")), 409, "already exists")
}

func TestGenerateName(t *testing.T) {
	a := start(t)
	got := into[corev1.ConfigMap](t, a.create(configPath, `{"metadata":{"generateName":"web-"}}`))
	if !regexp.MustCompile(`^web-[bcdfghjklmnpqrstvwxz2456789]{5}$`).MatchString(got.Name) || got.GenerateName != "web-" {
		t.Errorf("name %q", got.Name)
	}
	long := into[corev1.ConfigMap](t, a.create(configPath, `{"metadata":{"generateName":"`+strings.Repeat("a", 80)+`"}}`))
	if len(long.Name) != 63 {
		t.Errorf("name of %d letters", len(long.Name))
	}
}

// full is a store in which the first names are taken.
type full struct {
	storage.Store
	taken, tried int
}

func (f *full) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	if f.tried++; c.Op == storage.Create && f.tried <= f.taken {
		return storage.Record{}, storage.ErrExists
	}
	return f.Store.Commit(ctx, c)
}

func TestGenerateNameRetries(t *testing.T) {
	for taken, code := range map[int]int{7: http.StatusCreated, 8: http.StatusConflict} {
		a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = &full{Store: memstore.New(), taken: taken} }))
		got := a.do("POST", configPath, `{"metadata":{"generateName":"web-"}}`)
		if got.code != code {
			t.Errorf("%d taken: %d %s", taken, got.code, got.body)
		}
	}
}

// TestMutatingAdmissionSeesNoIdentity: mutating admission sees a new object once, without what the server sets
// afterwards, whatever admission says. Validating admission sees the object as it is stored.
func TestMutatingAdmissionSeesNoIdentity(t *testing.T) {
	var mutated, validated []string
	see := func(to *[]string) func(context.Context, *admission.Request) error {
		return func(_ context.Context, r *admission.Request) error {
			m := r.Object.(*corev1.ConfigMap)
			*to = append(*to, fmt.Sprintf("%s %s %t %t %d", r.Name, m.Name, m.UID != "", m.CreationTimestamp.IsZero(), len(m.ManagedFields)))
			return nil
		}
	}
	lie := func(ctx context.Context, r *admission.Request) error {
		m := r.Object.(*corev1.ConfigMap)
		err := see(&mutated)(ctx, r)
		m.UID, m.CreationTimestamp = "mine", metav1.Unix(1, 0)
		m.SetSelfLink("/x")
		return err
	}
	store := &full{Store: memstore.New(), taken: 2}
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = store }),
		apiservertest.WithAdmission(admit{mutate: lie, validate: see(&validated)}))
	const data = `,"uid":"x","creationTimestamp":"2001-01-01T00:00:00Z"},"data":{"a":"b"}}`
	made := []*corev1.ConfigMap{
		into[corev1.ConfigMap](t, a.create(configPath, `{"metadata":{"generateName":"a-"`+data)),
		into[corev1.ConfigMap](t, a.create(configPath, `{"metadata":{"name":"b"`+data)),
		into[corev1.ConfigMap](t, a.want(a.do("PATCH", configPath+"/c?fieldManager=m",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"b"}}`, applyPatch), 201, "")),
	}
	for _, m := range made {
		if m.UID == "mine" || m.UID == "x" || m.CreationTimestamp.Year() < 2020 || m.GetSelfLink() != "" {
			t.Errorf("the created metadata is %+v, want another UID than mine and x, a creationTimestamp since 2020 and no selfLink",
				m.ObjectMeta)
		}
	}
	if want := []string{"  false true 1", "b b false true 1", "c c false true 1"}; !slices.Equal(mutated, want) {
		t.Errorf("mutating admission has seen %q", mutated)
	}
	if len(validated) != 5 { // three of them with names for the first object
		t.Fatalf("validating admission has seen %q", validated)
	}
	if want := made[0].Name + " " + made[0].Name + " true false 1"; validated[2] != want || validated[3] != "b b true false 1" || validated[4] != "c c true false 1" {
		t.Errorf("validating admission has seen %q", validated)
	}
}

// TestGeneratedNamesCollide: many creates at once get names of two that are free, each mutated once, and validated under
// the names that it tries.
func TestGeneratedNamesCollide(t *testing.T) {
	var mutated, validated atomic.Int64
	a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Identities = &fewNames{} }), apiservertest.WithAdmission(admit{
		mutate: func(_ context.Context, r *admission.Request) error {
			mutated.Add(1)
			if m := r.Object.(*corev1.ConfigMap); m.Name != "" || m.UID != "" {
				return errors.New("an earlier try is left")
			}
			return nil
		},
		validate: func(_ context.Context, r *admission.Request) error {
			validated.Add(1)
			if m := r.Object.(*corev1.ConfigMap); r.Name != m.Name || m.UID == "" {
				return errors.New("no name")
			}
			return nil
		},
	}))
	const clients = 20
	var made, conflicts atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			switch got := a.do("POST", configPath, `{"metadata":{"generateName":"web-"}}`); got.code {
			case http.StatusCreated:
				made.Add(1)
			case http.StatusConflict:
				conflicts.Add(1)
			default:
				t.Errorf("POST with generateName = %d %s, want 201 or 409", got.code, got.body)
			}
		})
	}
	all.Wait()
	if made.Load() != 2 || conflicts.Load() != clients-2 || mutated.Load() != clients || validated.Load() < 8*(clients-2) {
		t.Errorf("%d made, %d conflicts, %d mutated, %d validated", made.Load(), conflicts.Load(), mutated.Load(), validated.Load())
	}
}

// fewNames generates two names in turn.
type fewNames struct{ uids, names atomic.Int64 }

func (f *fewNames) UID(schema.GroupResource, string, string) types.UID {
	return types.UID(fmt.Sprint("uid-", f.uids.Add(1)))
}

func (f *fewNames) Suffix(schema.GroupResource, string, string) string {
	return fmt.Sprintf("aaaa%d", f.names.Add(1)%2)
}

// TestAdmissionBreaksManagedFields: owners that admission sets are kept only if they can be read.
func TestAdmissionBreaksManagedFields(t *testing.T) {
	var owners []metav1.ManagedFieldsEntry
	a := start(t, apiservertest.WithAdmission(admit{mutate: func(_ context.Context, r *admission.Request) error {
		r.Object.(*corev1.ConfigMap).ManagedFields = owners
		return nil
	}}))
	entry := metav1.ManagedFieldsEntry{
		Manager: "hook", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
	}
	deep := entry
	deep.FieldsV1 = metav1.NewFieldsV1(strings.Repeat(`{"f:a":`, 5000) + "{}" + strings.Repeat("}", 5000))
	nonsense := entry
	nonsense.Operation = "Guess"
	for i, c := range []struct {
		owners []metav1.ManagedFieldsEntry
		want   string
	}{
		{nil, ""},
		{[]metav1.ManagedFieldsEntry{entry}, "hook"},
		{[]metav1.ManagedFieldsEntry{nonsense}, "test"},
		{[]metav1.ManagedFieldsEntry{deep}, "test"},
	} {
		owners = c.owners
		made := a.create(configPath+"?fieldManager=test", configMap(fmt.Sprint("m", i), `,"data":{"a":"b"}`))
		got := ""
		for _, m := range into[corev1.ConfigMap](t, made).ManagedFields {
			got += m.Manager
		}
		warned := strings.Contains(strings.Join(made.header.Values("Warning"), ""), ".metadata.managedFields was in an invalid state after admission")
		if got != c.want || warned != (c.want == "test") {
			t.Errorf("%d: owned by %q, warned %t", i, got, warned)
		}
	}
}

// TestNamespaceOfClusterObject: kubectl sends manifests of cluster-wide objects with a namespace as they are.
func TestNamespaceOfClusterObject(t *testing.T) {
	a := start(t)
	const path, stray = "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"one","namespace":"stray"}}`
	for _, got := range []answer{
		a.create(path, stray),
		a.want(a.do("PUT", path+"/one", stray), 200, ""),
		a.want(a.do("PATCH", path+"/one", `{"metadata":{"namespace":"stray"}}`, mergePatch), 200, ""),
		a.want(a.do("PATCH", path+"/one?fieldManager=m", stray, applyPatch), 200, ""),
		a.want(a.do("PATCH", path+"/two?fieldManager=m", strings.Replace(stray, "one", "two", 1), applyPatch), 201, ""),
	} {
		if n := into[corev1.Namespace](t, got); n.Namespace != "" {
			t.Errorf("the metadata of the answer is %+v, want no namespace", n.ObjectMeta)
		}
	}
}
