package rbac

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/escalation"
	planekit "github.com/planekit/planekit/authz/rbac"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install" // the internal types of the stock storage
	internal "k8s.io/kubernetes/pkg/apis/rbac/v1"
	clusterrole "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolebinding "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	role "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolebinding "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	stock "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

// accepting is storage that stores everything, over one existing object.
type accepting struct {
	rest.StandardStorage
	old runtime.Object
}

func (a accepting) Create(_ context.Context, o runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return o, nil
}

func (a accepting) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	o, err := info.UpdatedObject(ctx, a.old)
	return o, false, err
}

// stockWrites runs kube-apiserver's checks before it stores a role or a binding.
type stockWrites struct {
	authorizer *stock.RBACAuthorizer
	resolver   validation.AuthorizationRuleResolver
}

func newStockWrites(p planekit.Policy) stockWrites {
	return stockWrites{newStock(p), validation.NewDefaultRuleResolver(
		&stock.RoleGetter{Lister: rbaclisters.NewRoleLister(indexer(p.Roles))},
		&stock.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(indexer(p.RoleBindings))},
		&stock.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(indexer(filled(p.ClusterRoles)))},
		&stock.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(indexer(p.ClusterRoleBindings))},
	)}
}

func (s stockWrites) validate(r *admission.Request) error {
	ctx := request.WithUser(context.Background(), &stockuser.DefaultInfo{Name: r.User.Name, Groups: r.User.Groups})
	ctx = request.WithNamespace(ctx, r.Namespace)
	info := &request.RequestInfo{IsResourceRequest: true, APIGroup: rbacv1.GroupName, Resource: r.Resource.Resource, Namespace: r.Namespace}
	if r.Operation == admission.Update {
		info.Name = r.Name
	}
	ctx = request.WithRequestInfo(ctx, info)
	object, old := toInternal(r.Object), toInternal(r.OldObject)
	var storage rest.StandardStorage
	switch base := (accepting{old: old}); object.(type) {
	case *rbac.Role:
		storage = role.NewStorage(base, s.authorizer, s.resolver)
	case *rbac.ClusterRole:
		storage = clusterrole.NewStorage(base, s.authorizer, s.resolver)
	case *rbac.RoleBinding:
		storage = rolebinding.NewStorage(base, s.authorizer, s.resolver)
	case *rbac.ClusterRoleBinding:
		storage = clusterrolebinding.NewStorage(base, s.authorizer, s.resolver)
	}
	var err error
	if r.Operation == admission.Create {
		_, err = storage.Create(ctx, object, nil, nil)
	} else {
		_, _, err = storage.Update(ctx, r.Name, rest.DefaultUpdatedObjectInfo(object), nil, nil, false, nil)
	}
	return err
}

func toInternal(object any) runtime.Object {
	var out runtime.Object
	var err error
	switch o := object.(type) {
	case *rbacv1.Role:
		in := &rbac.Role{}
		out, err = in, internal.Convert_v1_Role_To_rbac_Role(o.DeepCopy(), in, nil)
	case *rbacv1.ClusterRole:
		in := &rbac.ClusterRole{}
		out, err = in, internal.Convert_v1_ClusterRole_To_rbac_ClusterRole(o.DeepCopy(), in, nil)
	case *rbacv1.RoleBinding:
		in := &rbac.RoleBinding{}
		out, err = in, internal.Convert_v1_RoleBinding_To_rbac_RoleBinding(o.DeepCopy(), in, nil)
	case *rbacv1.ClusterRoleBinding:
		in := &rbac.ClusterRoleBinding{}
		out, err = in, internal.Convert_v1_ClusterRoleBinding_To_rbac_ClusterRoleBinding(o.DeepCopy(), in, nil)
	}
	if err != nil {
		panic(err) // all of these are valid
	}
	return out
}

// write is a random write: of a new object, or of one with a small change.
func (w world) write(p planekit.Policy) *admission.Request {
	r := &admission.Request{Operation: admission.Create, User: w.near(p).User, Namespace: w.pick("x", "y"), Name: w.pick("1", "2")}
	if w.IntN(50) == 0 {
		r.User.Groups = append(r.User.Groups, "system:masters")
	}
	meta := func(namespace string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: namespace, Name: r.Name, Labels: map[string]string{"in": w.pick("a", "b")}}
		if w.IntN(3) == 0 {
			m.Finalizers = []string{"x"}
		}
		return m
	}
	kind := w.pick("ClusterRole", "Role")
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: w.pick("1", "2", "3", "gone")}
	object := func() metav1.Object {
		switch r.Resource.Resource {
		case "roles":
			return &rbacv1.Role{ObjectMeta: meta(r.Namespace), Rules: w.rules()}
		case "clusterroles":
			return w.clusterRole(meta(""))
		case "rolebindings":
			return &rbacv1.RoleBinding{ObjectMeta: meta(r.Namespace), RoleRef: ref, Subjects: w.subjects()}
		}
		ref.Kind = "ClusterRole"
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta(""), RoleRef: ref, Subjects: w.subjects()}
	}
	r.Resource = admission.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: w.pick("roles", "clusterroles", "rolebindings", "clusterrolebindings")}
	made := object()
	r.Namespace, r.Object = made.GetNamespace(), made
	if w.IntN(2) == 0 {
		r.Operation = admission.Update
		old := object()
		if w.IntN(2) == 0 { // only its metadata changes
			old = made.(runtime.Object).DeepCopyObject().(metav1.Object)
			old.SetFinalizers([]string{w.pick("x", "y")})
			old.SetLabels(map[string]string{"in": w.pick("a", "b")})
		}
		r.OldObject = old
	}
	return r
}

// cause returns the text of an error without the part on bindings to missing roles: stock counts
// some that are invalid, in no order. It also leaves out the order of verbs, which depends on the
// aggregated role that was written last.
func cause(err error) string {
	if err == nil {
		return ""
	}
	var forbidden *admission.ForbiddenError
	if errors.As(err, &forbidden) {
		err = apierrors.NewForbidden(rbacv1.Resource(forbidden.Resource), forbidden.Name, forbidden.Err)
	}
	text, _, _ := strings.Cut(err.Error(), "; resolution errors: ")
	return verbs.ReplaceAllStringFunc(text, func(list string) string {
		words := strings.Fields(list[len("Verbs:[") : len(list)-1])
		slices.Sort(words)
		return strings.Join(words, " ")
	})
}

var verbs = regexp.MustCompile(`Verbs:\[[^]]*\]`)

// TestSameRefusals writes random roles and bindings through the stock checks and planekit's: the
// same writes pass, and the others are refused with the same text.
func TestSameRefusals(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	writes := *decisions / 10
	t.Logf("seed %d, %d writes", seed, writes)
	w := world{rand.New(rand.NewPCG(seed, 0))}
	passed, made := 0, 0
	for made < writes {
		p := w.policy()
		for _, r := range p.ClusterRoles {
			r.Rules = append(r.Rules, w.granting()...)
		}
		s, err := newSides(p)
		if err != nil {
			t.Fatal(err)
		}
		plugin, err := escalation.New(escalation.Config{Rights: s.own, Authorizer: s.own})
		if err != nil {
			t.Fatal(err)
		}
		stock := newStockWrites(p)
		for range 100 {
			made++
			r := w.write(p)
			got, want := plugin.Validate(t.Context(), r), stock.validate(r)
			if (got == nil) != (want == nil) || cause(got) != fromStorage(cause(want)) {
				t.Fatalf("seed %d, write %d: %s %s %+v over %+v by %+v\npolicy %+v\nplanekit %v\nstock    %v", seed, made, r.Operation, r.Resource.Resource, r.Object, r.OldObject, r.User, p, cause(got), cause(want))
			}
			if got == nil {
				passed++
			}
		}
		s.stop()
	}
	t.Logf("%d of %d passed", passed, made)
	if passed < made/10 || passed > made*9/10 {
		t.Errorf("seed %d: %d of %d passed shows little", seed, passed, made)
	}
}

// fromStorage converts a NotFound of a lister to that of storage, from which a server reads the
// role of a binding.
func fromStorage(text string) string {
	if kind, rest, found := strings.Cut(text, "."+rbacv1.GroupName+` "`); found && strings.HasSuffix(rest, "not found") && !strings.Contains(kind, " ") {
		return strings.TrimSuffix(kind, "s") + "s." + rbacv1.GroupName + ` "` + rest
	}
	return text
}

// granting returns rules with the verbs that matter for writes.
func (w world) granting() []rbacv1.PolicyRule {
	if w.IntN(4) > 0 {
		return nil
	}
	r := rbacv1.PolicyRule{Verbs: []string{w.pick("bind", "escalate")}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{w.pick("roles", "clusterroles")}}
	if w.IntN(2) == 0 {
		r.ResourceNames = []string{w.pick("1", "2")}
	}
	return []rbacv1.PolicyRule{r}
}
