package noderestriction_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/noderestriction"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "robot"}}
}

func config() noderestriction.Config {
	return noderestriction.Config{
		Pods:  localcache.NewMap(pod("mine", "n1"), pod("other", "n2")),
		Nodes: localcache.NewMap(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}}),
	}
}

func start(t testing.TB, c noderestriction.Config) *noderestriction.Plugin {
	t.Helper()
	p, err := noderestriction.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var kubelet = &user.Info{Name: user.NodePrefix + "n1", Groups: []string{user.Nodes, user.Authenticated}}

// request is of the node n1, to do what on "group/resource/subresource" with the
// object of that name.
func request(what admission.Operation, target, name string, object, old any) *admission.Request {
	words := strings.Split(target, "/")
	r := &admission.Request{Operation: what, Resource: admission.GroupVersionResource{Group: words[0], Resource: words[1]},
		Name: name, Namespace: "shop", User: kubelet, Object: object, OldObject: old}
	if len(words) > 2 {
		r.Subresource = words[2]
	}
	return r
}

// check expects r to be refused with a text that contains refused, or to pass if it is empty. Users
// that are not nodes always pass.
func check(t *testing.T, p *noderestriction.Plugin, name string, r *admission.Request, refused string) {
	t.Helper()
	err := p.Validate(t.Context(), r)
	if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
		t.Errorf("%s: Validate(request) = %v, want an error with %q (nil if empty)", name, err, refused)
	}
	for _, u := range []*user.Info{nil, {Name: "jane", Groups: []string{user.Nodes}}, {Name: kubelet.Name}} {
		other := *r
		other.User = u
		if err := p.Validate(t.Context(), &other); err != nil {
			t.Errorf("%s by %+v: %v", name, u, err)
		}
	}
	connect := *r
	connect.Operation = admission.Connect
	if err := p.Validate(t.Context(), &connect); err != nil {
		t.Errorf("%s on connect: %v", name, err)
	}
}

func Example() {
	nodes, err := noderestriction.New(noderestriction.Config{Pods: localcache.NewMap[*corev1.Pod](), Nodes: localcache.NewMap[*corev1.Node]()})
	if err != nil {
		fmt.Println(err)
		return
	}
	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	fmt.Println(nodes.Validate(context.Background(), &admission.Request{
		Operation: admission.Update, Resource: admission.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "n2",
		User:   &user.Info{Name: "system:node:n1", Groups: []string{user.Nodes}},
		Object: old, OldObject: old,
	}))
	// Output: nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"
}

func node(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if change != nil {
		change(n)
	}
	return n
}

func labels(keys ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels = map[string]string{}
		for _, k := range keys {
			key, value, _ := strings.Cut(k, "=")
			n.Labels[key] = value
		}
	}
}

// TestNode: a node keeps from its own object what would draw pods to it.
func TestNode(t *testing.T) {
	p := start(t, config())
	taint := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoSchedule"}} }
	owner := func(n *corev1.Node) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }
	//lint:ignore SA1019 it is refused
	source := func(n *corev1.Node) { n.Spec.ConfigSource = &corev1.NodeConfigSource{} }
	own := labels("kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
		"failure-domain.beta.kubernetes.io/region", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "kubernetes.io/os",
		"kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "kubelet.kubernetes.io/x", "a.kubelet.kubernetes.io/x",
		"node.kubernetes.io/x", "a.node.kubernetes.io/x", "mine", "example.com/x", "notkubernetes.io/x")
	others := labels("node-restriction.kubernetes.io/x", "a.node-restriction.kubernetes.io/x", "kubernetes.io/role", "node-role.kubernetes.io/master", "k8s.io/x", "a.k8s.io/x")
	const named = "a.k8s.io/x, a.node-restriction.kubernetes.io/x, k8s.io/x, kubernetes.io/role, node-restriction.kubernetes.io/x, node-role.kubernetes.io/master"
	for _, test := range []struct {
		name    string
		object  *corev1.Node
		old     *corev1.Node
		refused string
	}{
		{"create", node("n1", own), nil, ""},
		{"create with taints", node("n1", taint), nil, ""},
		{"create another", node("n2", nil), nil, `node "n1" is not allowed to modify node "n2"`},
		{"create with labels", node("n1", others), nil, `node "n1" is not allowed to set the following labels: ` + named},
		{"create with a source", node("n1", source), nil, `node "n1" is not allowed to create pods with a non-nil configSource`},
		{"update", node("n1", own), node("n1", nil), ""},
		{"update another", node("n2", nil), node("n2", nil), `node "n1" is not allowed to modify node "n2"`},
		{"add labels", node("n1", others), node("n1", nil), "is not allowed to modify labels: " + named},
		{"take labels off", node("n1", nil), node("n1", others), "is not allowed to modify labels: " + named},
		{"change a label", node("n1", labels("k8s.io/x=1")), node("n1", labels("k8s.io/x=2")), "is not allowed to modify labels: k8s.io/x"},
		{"leave labels", node("n1", others), node("n1", others), ""},
		{"taint", node("n1", taint), node("n1", nil), `node "n1" is not allowed to modify taints`},
		{"untaint", node("n1", nil), node("n1", taint), `node "n1" is not allowed to modify taints`},
		{"leave taints", node("n1", taint), node("n1", taint), ""},
		{"own", node("n1", owner), node("n1", nil), `node "n1" is not allowed to modify ownerReferences`},
		{"disown", node("n1", nil), node("n1", owner), `node "n1" is not allowed to modify ownerReferences`},
		{"source", node("n1", source), node("n1", nil), `node "n1" is not allowed to update configSource to a new non-nil configSource`},
		{"drop source", node("n1", nil), node("n1", source), ""},
	} {
		if test.old == nil {
			check(t, p, test.name, request(admission.Create, "/nodes", test.object.Name, test.object, nil), test.refused)
			continue
		}
		check(t, p, test.name, request(admission.Update, "/nodes", test.object.Name, test.object, test.old), test.refused)
		check(t, p, test.name+" by status", request(admission.Update, "/nodes/status", test.object.Name, test.object, test.old), test.refused)
	}
	check(t, p, "delete", request(admission.Delete, "/nodes", "n1", nil, node("n1", nil)), "")
	check(t, p, "delete another", request(admission.Delete, "/nodes", "n2", nil, node("n2", nil)), "is not allowed to modify node")
	check(t, p, "what is no node", request(admission.Update, "/nodes", "n1", &corev1.Pod{}, &corev1.Pod{}), "unexpected type *v1.Pod")
	check(t, p, "over what is no node", request(admission.Update, "/nodes", "n1", node("n1", nil), nil), "unexpected type <nil>")
	nameless := request(admission.Update, "/nodes", "n1", node("n1", nil), node("n1", nil))
	nameless.User = &user.Info{Name: user.NodePrefix, Groups: []string{user.Nodes}}
	if err := p.Validate(t.Context(), nameless); err == nil || !strings.Contains(err.Error(), `could not determine node from user "system:node:"`) {
		t.Errorf("a node without a name: %v", err)
	}
}

// TestPods: a node has to do with its own pods only.
func TestPods(t *testing.T) {
	p := start(t, config())
	gone := `pods "gone" not found`
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	relabelled, claimed, extended := pod("mine", "n1"), pod("mine", "n1"), pod("mine", "n1")
	relabelled.Labels = map[string]string{"a": "b"}
	claimed.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "x"}}
	extended.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "x"}
	running := pod("mine", "n1")
	running.Status.Phase = corev1.PodRunning
	for _, test := range []struct {
		name    string
		request *admission.Request
		refused string
	}{
		{"update", request(admission.Update, "/pods", "mine", running, pod("mine", "n1")), `unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		{"delete", request(admission.Delete, "/pods", "mine", nil, pod("mine", "n1")), ""},
		{"delete by the true old object", request(admission.Delete, "/pods", "mine", nil, pod("mine", "n2")), `node "n1" can only delete pods with spec.nodeName set to itself`},
		{"delete from the copy", request(admission.Delete, "/pods", "other", nil, nil), `node "n1" can only delete pods with spec.nodeName set to itself`},
		{"delete nothing", request(admission.Delete, "/pods", "gone", nil, nil), gone},
		{"binding", request(admission.Create, "/pods/binding", "mine", nil, nil), `unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`},
		{"ephemeral containers", request(admission.Update, "/pods/ephemeralcontainers", "mine", running, running), `unexpected pod subresource "ephemeralcontainers"`},

		{"status", request(admission.Update, "/pods/status", "mine", running, pod("mine", "n1")), ""},
		{"status of another", request(admission.Update, "/pods/status", "other", running, pod("other", "n2")), `node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		{"status and labels", request(admission.Update, "/pods/status", "mine", relabelled, pod("mine", "n1")), `node "n1" cannot update labels through pod status`},
		{"status and claims", request(admission.Update, "/pods/status", "mine", claimed, pod("mine", "n1")), `node "n1" cannot update resource claim statues`},
		{"status and extended claims", request(admission.Update, "/pods/status", "mine", extended, pod("mine", "n1")), `node "n1" cannot update extended resource claim status`},
		{"create status", request(admission.Create, "/pods/status", "mine", running, nil), `unexpected operation "CREATE"`},

		{"evict", request(admission.Create, "/pods/eviction", "mine", eviction, nil), ""},
		{"evict by the object", request(admission.Create, "/pods/eviction", "", eviction, nil), ""},
		{"evict by the URL", request(admission.Create, "/pods/eviction", "other", eviction, nil), "node n1 can only evict pods with spec.nodeName set to itself"},
		{"evict nothing", request(admission.Create, "/pods/eviction", "gone", eviction, nil), gone},
		{"evict no name", request(admission.Create, "/pods/eviction", "", &policyv1.Eviction{}, nil), "could not determine pod from request data"},
		{"update eviction", request(admission.Update, "/pods/eviction", "mine", eviction, nil), "unexpected operation UPDATE"},
	} {
		check(t, p, test.name, test.request, test.refused)
	}
}

// TestLookup: where the copy is behind, the store says who is right.
func TestLookup(t *testing.T) {
	c := config()
	bound := pod("unbound", "n1")
	c.Pods.(*localcache.Map[*corev1.Pod]).Put(pod("unbound", ""))
	c.LookupPod = func(_ context.Context, namespace, name string) (*corev1.Pod, error) {
		if namespace == "shop" && name == "unbound" {
			return bound, nil
		}
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	c.LookupNode = func(_ context.Context, _, name string) (*corev1.Node, error) {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-again"}}, nil
	}
	p := start(t, c)
	check(t, p, "evict what was just bound", request(admission.Create, "/pods/eviction", "unbound", &policyv1.Eviction{}, nil), "")
	err := p.Validate(t.Context(), request(admission.Create, "/pods/eviction", "gone", &policyv1.Eviction{}, nil))
	if !apierrors.IsNotFound(err) {
		t.Errorf("Validate(an eviction of a pod that is gone) = %v, want NotFound", err)
	}
	mirror := newMirror(nil)
	mirror.OwnerReferences[0].UID = "uid-again"
	check(t, p, "mirror of a node that came back", request(admission.Create, "/pods", "m", mirror, nil), "")
}

func TestOthers(t *testing.T) {
	p := start(t, config())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	at := func(namespace string, r *admission.Request) *admission.Request {
		r.Namespace = namespace
		return r
	}
	const own = "can only access node lease with the same name as the requesting node"
	check(t, p, "create lease", at("kube-node-lease", request(admission.Create, "coordination.k8s.io/leases", "n1", lease, nil)), "")
	check(t, p, "create lease of another", at("kube-node-lease", request(admission.Create, "coordination.k8s.io/leases", "n1", &coordinationv1.Lease{}, nil)), own)
	check(t, p, "lease elsewhere", at("kube-system", request(admission.Update, "coordination.k8s.io/leases", "n1", lease, lease)), `can only access leases in the "kube-node-lease" system namespace`)
	check(t, p, "lease of another", at("kube-node-lease", request(admission.Delete, "coordination.k8s.io/leases", "n2", nil, lease)), own)
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	const ownCSI = "can only access CSINode with the same name as the requesting node"
	check(t, p, "create CSINode", request(admission.Create, "storage.k8s.io/csinodes", "", csi, nil), "")
	check(t, p, "create CSINode of another", request(admission.Create, "storage.k8s.io/csinodes", "n1", &storagev1.CSINode{}, nil), ownCSI)
	check(t, p, "CSINode of another", request(admission.Update, "storage.k8s.io/csinodes", "n2", csi, csi), ownCSI)
	check(t, p, "an event", request(admission.Create, "/events", "e", &corev1.Event{}, nil), "")
	check(t, p, "a service account", request(admission.Update, "/serviceaccounts", "robot", nil, nil), "")

	if _, err := noderestriction.New(noderestriction.Config{}); err == nil {
		t.Error("no pods, no error")
	}
	var forbidden *admission.ForbiddenError
	if err := p.Validate(t.Context(), request(admission.Update, "/nodes", "n2", nil, nil)); !errors.As(err, &forbidden) || forbidden.Resource != "nodes" || forbidden.Name != "n2" {
		t.Errorf("Validate(an update of node n2) = %#v, want a ForbiddenError of nodes with the name n2", err)
	}
}

func TestClaims(t *testing.T) {
	p := start(t, config())
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "disk", ResourceVersion: "1"}}
		change(c)
		return c
	}
	old := claim(func(*corev1.PersistentVolumeClaim) {})
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	grown := claim(func(c *corev1.PersistentVolumeClaim) {
		c.ResourceVersion, c.ManagedFields = "", []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		c.Status.Capacity, c.Status.AllocatedResources = size, size
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing}}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: "x"}
	})
	const refused = `node "n1" is not allowed to update fields other than status.quantity and status.conditions`
	check(t, p, "grow", request(admission.Update, "/persistentvolumeclaims/status", "disk", grown, old), "")
	check(t, p, "phase", request(admission.Update, "/persistentvolumeclaims/status", "disk", claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = "Lost" }), old), refused)
	check(t, p, "label", request(admission.Update, "/persistentvolumeclaims/status", "disk", claim(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"a": "b"} }), old), refused)
	check(t, p, "finalizer", request(admission.Update, "/persistentvolumeclaims/status", "disk", claim(func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"x"} }), old), refused)
	check(t, p, "claim", request(admission.Update, "/persistentvolumeclaims", "disk", grown, old), "may only update PVC status")
	check(t, p, "create", request(admission.Create, "/persistentvolumeclaims/status", "disk", grown, nil), `unexpected operation "CREATE"`)
}

// denying allows one audience.
func denying(audience string) authz.Authorizer {
	return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "request-serviceaccounts-token-audience" && a.Resource == audience && a.Name == "robot" && a.Namespace == "shop" && a.User == kubelet {
			return authz.Allow, "", nil
		}
		if a.Resource == "broken" {
			return authz.NoOpinion, "", errors.New("broken")
		}
		return authz.NoOpinion, "", nil
	})
}
