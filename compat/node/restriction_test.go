package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/noderestriction"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/localcache"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	stockadmission "k8s.io/apiserver/pkg/admission"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install" // the internal types of the stock admission
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	stock "k8s.io/kubernetes/plugin/pkg/admission/noderestriction"
)

func boundPod(name, node, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: account, Volumes: []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}}}}}}}}
}

// restrictions returns both plugins over the same pods and nodes.
func restrictions(t *testing.T) (*noderestriction.Plugin, *stock.Plugin) {
	pods := localcache.NewMap(boundPod("a", "n1", "robot"), boundPod("b", "n2", "robot"), boundPod("c", "", "robot"))
	known := localcache.NewMap(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1"}})
	own, err := noderestriction.New(noderestriction.Config{Pods: pods, Nodes: known})
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(nil, 0)
	for p := range pods.All() {
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	for n := range known.All() {
		if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	plugin := stock.NewPlugin(nodeidentifier.NewDefaultNodeIdentifier())
	plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetAuthorizer(authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", nil
	}))
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	return own, plugin
}

// asInternal converts an object to the type of the stock plugin.
func asInternal(t *testing.T, o any) runtime.Object {
	object, ok := o.(runtime.Object)
	if !ok {
		return nil
	}
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if err != nil {
		t.Fatal(err)
	}
	in, err := legacyscheme.Scheme.New(schema.GroupVersionKind{Group: kinds[0].Group, Version: runtime.APIVersionInternal, Kind: kinds[0].Kind})
	if err != nil {
		t.Fatal(err)
	}
	if err := legacyscheme.Scheme.Convert(object.DeepCopyObject(), in, nil); err != nil {
		t.Fatal(err)
	}
	return in
}

func (w world) labels() map[string]string {
	labels := map[string]string{}
	for range w.IntN(3) {
		labels[w.pick("a", "kubernetes.io/hostname", "kubernetes.io/x", "x.kubernetes.io/y", "k8s.io/x", "node-restriction.kubernetes.io/x", "y.node-restriction.kubernetes.io/x",
			"kubelet.kubernetes.io/x", "y.node.kubernetes.io/x", "node-role.kubernetes.io/x", "topology.kubernetes.io/zone", "example.com/x")] = w.pick("1", "2")
	}
	return labels
}

func (w world) randomNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: w.labels()}}
	if w.IntN(4) == 0 {
		n.Spec.Taints = []corev1.Taint{{Key: w.pick("a", "b"), Effect: "NoSchedule"}}
	}
	if w.IntN(4) == 0 {
		n.OwnerReferences = []metav1.OwnerReference{{Name: w.pick("a", "b")}}
	}
	return n
}

// mirrorPod returns a pod that is close to a mirror pod that a node may create.
func (w world) mirrorPod() *corev1.Pod {
	yes := w.IntN(8) > 0
	p := w.randomPod("x", "m", "a", "b")
	if w.IntN(2) == 0 {
		p.Spec = corev1.PodSpec{}
	}
	p.Spec.NodeName = w.pick("n1", "n1", "n1", "n2")
	if w.IntN(8) > 0 {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	for range 1 + max(0, w.IntN(10)-8) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: w.pick("v1", "v1", "v1", "v2"), Kind: w.pick("Node", "Node", "Node", "Pod"),
			Name: w.pick("n1", "n1", "n1", "n2"), UID: types.UID(w.pick("uid-n1", "uid-n1", "uid-n1", "uid")), Controller: &yes})
	}
	if w.IntN(3) == 0 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: []corev1.VolumeSource{
			{HostPath: &corev1.HostPathVolumeSource{}}, {EmptyDir: &corev1.EmptyDirVolumeSource{}}, {Glusterfs: &corev1.GlusterfsVolumeSource{}}, {},
			{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}, {}}}},
			{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}},
		}[w.IntN(6)]})
	}
	return p
}

// nodeWrite returns a random write of a node.
func (w world) nodeWrite() *admission.Request {
	r := &admission.Request{Operation: admission.Operation(w.pick("CREATE", "UPDATE", "DELETE")), Namespace: "x", Name: w.pick("a", "b", "c", "gone"),
		User: &user.Info{Name: w.pick("system:node:n1", "system:node:n1", "system:node:n1", "system:node:", "jane"), Groups: []string{w.pick(user.Nodes, user.Nodes, user.Nodes, "x")}}}
	set := func(group, version, plural, subresource string, object, old any) {
		r.Resource, r.Subresource = admission.GroupVersionResource{Group: group, Version: version, Resource: plural}, subresource
		if r.Operation != admission.Delete {
			r.Object = object
		}
		if r.Operation != admission.Create {
			r.OldObject = old
		}
	}
	switch w.IntN(8) {
	case 0, 1:
		r.Namespace, r.Name = "", w.pick("n1", "n1", "n1", "n2")
		set("", "v1", "nodes", w.pick("", "status"), w.randomNode(r.Name), w.randomNode(r.Name))
	case 2:
		object := w.mirrorPod()
		r.Operation, r.Name = admission.Create, object.Name
		set("", "v1", "pods", "", object, nil)
	case 3:
		old := boundPod(r.Name, map[string]string{"a": "n1", "b": "n2"}[r.Name], "robot")
		object := old.DeepCopy()
		if w.IntN(2) == 0 {
			object.Labels = map[string]string{"a": w.pick("1", "2")}
		}
		if w.IntN(4) == 0 {
			object.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "x"}}
		}
		if w.IntN(2) == 0 && r.Name != "gone" && r.Operation != admission.Create {
			set("", "v1", "pods", w.pick("", "status"), object, old)
		} else {
			r.Operation = admission.Update
			set("", "v1", "pods", w.pick("status", "resize", "ephemeralcontainers"), object, old)
		}
	case 4:
		r.Operation = admission.Create
		set("", "v1", "pods", "eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: w.pick("a", "b")}}, nil)
	case 5:
		pod := w.pick("a", "a", "b", "gone", "")
		r.Operation, r.Name = admission.Create, "robot"
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{w.pick("vault", "vault", "bank")}[:w.IntN(2)]}}
		if w.IntN(6) > 0 {
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: w.pick("Pod", "Pod", "Pod", "Secret"), Name: pod, UID: types.UID(w.pick("uid-"+pod, "uid-"+pod, "uid", ""))}
		}
		set("", "v1", "serviceaccounts", "token", request, nil)
	case 6:
		r.Operation = admission.Update
		old := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: r.Name, ResourceVersion: "1"}}
		object := old.DeepCopy()
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
		switch w.IntN(5) {
		case 0:
			object.Status.Capacity, object.ResourceVersion = size, ""
		case 1:
			object.Status.AllocatedResources = size
		case 2:
			object.Status.Phase = corev1.ClaimLost
		case 3:
			object.Labels = map[string]string{"a": "b"}
		}
		set("", "v1", "persistentvolumeclaims", w.pick("status", "status", ""), object, old)
	case 7:
		r.Namespace, r.Name = w.pick("kube-node-lease", "kube-node-lease", "x"), w.pick("n1", "n1", "n2")
		if w.IntN(2) == 0 {
			o := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
			set("coordination.k8s.io", "v1", "leases", "", o, o)
			break
		}
		r.Namespace = ""
		o := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
		set("storage.k8s.io", "v1", "csinodes", "", o, o)
	}
	return r
}

// TestSameRestrictions sends random writes of nodes through both plugins. If one refuses a write,
// the other refuses it with the same text.
func TestSameRestrictions(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	writes := *decisions / 10
	t.Logf("seed %d, %d writes", seed, writes)
	w := world{rand.New(rand.NewPCG(seed, 0))}
	own, plugin := restrictions(t)
	passed := 0
	for i := range writes {
		r := w.nodeWrite()
		got := own.Validate(t.Context(), r)
		want := plugin.Admit(t.Context(), stockadmission.NewAttributesRecord(asInternal(t, r.Object), asInternal(t, r.OldObject), schema.GroupVersionKind{}, r.Namespace, r.Name,
			schema.GroupVersionResource(r.Resource), r.Subresource, stockadmission.Operation(r.Operation), nil, false,
			&stockuser.DefaultInfo{Name: r.User.Name, Groups: r.User.Groups}), nil)
		if refusal(got) != refusal(want) {
			t.Fatalf("seed %d, write %d: %s %v %s %s by %+v\nobject %+v\nold %+v\nplanekit %v\nstock    %v", seed, i, r.Operation, r.Resource, r.Subresource, r.Name, r.User, r.Object, r.OldObject, got, want)
		}
		if got == nil {
			passed++
		}
	}
	t.Logf("%d of %d passed", passed, writes)
	if passed < writes/10 || passed > writes*9/10 {
		t.Errorf("seed %d: %d of %d passed shows little", seed, passed, writes)
	}
}

// refusal returns the text of an error as a client receives it, except for the differing fields of
// a claim, which stock lists, and for the text about an object that a lister does not have.
func refusal(err error) string {
	if err == nil {
		return ""
	}
	var forbidden *admission.ForbiddenError
	if errors.As(err, &forbidden) {
		err = apierrors.NewForbidden(schema.GroupResource{Group: forbidden.Group, Resource: forbidden.Resource}, forbidden.Name, forbidden.Err)
	}
	text, _, _ := strings.Cut(err.Error(), "status.conditions: ")
	if apierrors.IsNotFound(err) {
		text = strings.Replace(text, "pods ", "pod ", 1)
	}
	return strings.TrimSuffix(text, "status.conditions")
}
