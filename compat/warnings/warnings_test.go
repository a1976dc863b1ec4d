package warnings

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"sigs.k8s.io/yaml"
)

// strategies has those of kube-apiserver that warn, by their folder and, for a status, the suffix /status.
var strategies = map[string]rest.RESTUpdateStrategy{
	"admissionregistration/mutatingadmissionpolicy":          mutatingadmissionpolicy.NewStrategy(nil, nil),
	"admissionregistration/mutatingadmissionpolicybinding":   mutatingadmissionpolicybinding.NewStrategy(nil, nil, nil),
	"admissionregistration/mutatingwebhookconfiguration":     mutatingwebhookconfiguration.Strategy,
	"admissionregistration/validatingadmissionpolicy":        validatingadmissionpolicy.NewStrategy(nil, nil),
	"admissionregistration/validatingadmissionpolicybinding": validatingadmissionpolicybinding.NewStrategy(nil, nil, nil),
	"admissionregistration/validatingwebhookconfiguration":   validatingwebhookconfiguration.Strategy,
	"apps/daemonset":             daemonset.Strategy,
	"apps/deployment":            deployment.Strategy,
	"apps/replicaset":            replicaset.Strategy,
	"apps/statefulset":           statefulset.Strategy,
	"batch/cronjob":              cronjob.Strategy,
	"batch/job":                  job.Strategy,
	"core/endpoint":              endpoint.Strategy,
	"core/node":                  node.Strategy,
	"core/persistentvolume":      persistentvolume.Strategy,
	"core/persistentvolumeclaim": persistentvolumeclaim.Strategy,
	"core/pod":                   pod.Strategy,
	"core/pod/status":            pod.StatusStrategy,
	"core/podtemplate":           podtemplate.Strategy,
	"core/replicationcontroller": replicationcontroller.Strategy,
	"core/resourcequota":         resourcequota.Strategy,
	"core/secret":                secret.Strategy,
	"core/service":               service.Strategy,
	"core/service/status":        service.StatusStrategy,
	"core/serviceaccount":        serviceaccount.Strategy,
	"discovery/endpointslice":    endpointslice.Strategy,
	"networking/ingress":         ingress.Strategy,
	"networking/ingress/status":  ingress.StatusStrategy,
	"networking/networkpolicy":   networkpolicy.Strategy,
	"node/runtimeclass":          runtimeclass.Strategy,
	"storage/csidriver":          csidriver.Strategy,
	"storage/csistoragecapacity": csistoragecapacity.Strategy,
	"storage/storageclass":       storageclass.Strategy,
}

// unserved are of kinds that planekit does not serve.
var unserved = []string{"resource/resourceslice"}

// TestEveryStrategy: the strategies that warn in the sources of Kubernetes are those that are compared.
func TestEveryStrategy(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "pkg", "registry")
	files, err := filepath.Glob(filepath.Join(root, "*", "*", "strategy.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no strategies below %s: %v", root, err)
	}
	found := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		folder := strings.TrimPrefix(filepath.Dir(file), root+"/")
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv != nil && strings.HasPrefix(f.Name.Name, "WarningsOn") && !isNil(f.Body) {
				receiver := f.Recv.List[0].Type
				if star, ok := receiver.(*ast.StarExpr); ok {
					receiver = star.X
				}
				name := folder
				if strings.HasSuffix(receiver.(*ast.Ident).Name, "StatusStrategy") {
					name += "/status"
				}
				found[name] = true
			}
		}
	}
	got := slices.Sorted(maps.Keys(found))
	want := slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(strategies)), unserved...)))
	if !slices.Equal(got, want) {
		t.Errorf("Kubernetes warns in\n%v, compared are\n%v", got, want)
	}
	tried := map[string]bool{}
	for _, c := range cases {
		tried[c.strategy] = true
	}
	for name := range strategies {
		if !tried[name] {
			t.Errorf("no object of %s is tried", name)
		}
	}
}

// isNil reports whether a function does nothing but return nil.
func isNil(body *ast.BlockStmt) bool {
	if len(body.List) > 1 {
		return false
	}
	if len(body.List) == 0 {
		return true
	}
	r, ok := body.List[0].(*ast.ReturnStmt)
	if !ok || len(r.Results) != 1 {
		return false
	}
	id, ok := r.Results[0].(*ast.Ident)
	return ok && id.Name == "nil"
}

// TestSameWarnings: new and changed objects are warned about in the same words and order.
func TestSameWarnings(t *testing.T) {
	resources := map[string]apiserver.Resource{}
	for _, r := range kube.Resources() {
		resources[r.Group+"/"+r.Kind] = r
	}
	for _, c := range cases {
		data, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(c.object, "\t", " ")))
		if err != nil {
			t.Fatalf("YAML of an object of %s: %v: %s", c.strategy, err, c.object)
		}
		obj, gvk, err := legacyscheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("decode an object of %s: %v, want a known kind: %s", c.strategy, err, c.object)
		}
		internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(obj.DeepCopyObject(), runtime.InternalGroupVersioner)
		if err != nil {
			t.Fatal(err)
		}
		theirs, r := strategies[c.strategy], resources[gvk.Group+"/"+gvk.Kind]
		ours := r.Strategy.Warnings
		if strings.HasSuffix(c.strategy, "/status") {
			for _, sub := range r.Subresources {
				if s, ok := sub.(apiserver.Status); ok && s.SubresourceName() == "status" {
					ours = s.Strategy.Warnings
				}
			}
		}
		if ours == nil {
			t.Errorf("%s: %s has no warnings", c.strategy, gvk.Kind)
			continue
		}
		// The object as it was before has another generation.
		old, internalOld := obj.DeepCopyObject(), internal.DeepCopyObject()
		for _, o := range []runtime.Object{old, internalOld} {
			m, err := meta.Accessor(o)
			if err != nil {
				t.Fatal(err)
			}
			m.SetGeneration(m.GetGeneration() + 1)
		}
		compare := func(operation string, got, want []string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s:\n%s\nwarns of\n%q, want\n%q", c.strategy, operation, c.object, got, want)
			}
		}
		if create, ok := theirs.(rest.RESTCreateStrategy); ok && !strings.HasSuffix(c.strategy, "/status") {
			want := create.WarningsOnCreate(t.Context(), internal)
			if len(want) == 0 && !c.silent {
				t.Errorf("%s: Kubernetes does not warn of\n%s", c.strategy, c.object)
			}
			compare("create", ours(obj, nil), want)
		}
		compare("update", ours(obj, old), theirs.WarningsOnUpdate(t.Context(), internal, internalOld))
		compare("same update", ours(obj, obj), theirs.WarningsOnUpdate(t.Context(), internal, internal))
	}
}
