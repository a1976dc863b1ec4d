package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	planekitnode "github.com/planekit/planekit/authz/node"
	planekit "github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/internal/requirement"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"k8s.io/utils/ptr"
)

// feed is a cache that reports when it has a subscriber.
type feed[T localcache.Object] struct {
	*localcache.Map[T]
	ready chan struct{}
}

func newFeed[T localcache.Object]() *feed[T] {
	return &feed[T]{localcache.NewMap[T](), make(chan struct{})}
}

func (f *feed[T]) Subscribe(handle func(old, new T)) localcache.Subscription {
	defer close(f.ready)
	return f.Map.Subscribe(handle)
}

// nodes holds both node authorizers, and the caches that planekit's follows.
type nodes struct {
	own         *planekitnode.Authorizer
	stock       *node.NodeAuthorizer
	graph       *node.Graph
	pods        *feed[*corev1.Pod]
	volumes     *feed[*corev1.PersistentVolume]
	attachments *feed[*storagev1.VolumeAttachment]
	slices      *feed[*resourcev1.ResourceSlice]
}

func newNodes(t *testing.T) *nodes {
	pods, volumes, attachments := newFeed[*corev1.Pod](), newFeed[*corev1.PersistentVolume](), newFeed[*storagev1.VolumeAttachment]()
	slices := newFeed[*resourcev1.ResourceSlice]()
	own, err := planekitnode.New(planekitnode.Config{Pods: pods, Volumes: volumes, Attachments: attachments, Slices: slices, Rest: planekit.Rules(planekit.NodeRules())})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- own.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for _, ready := range []chan struct{}{pods.ready, volumes.ready, attachments.ready, slices.ready} {
		<-ready
	}
	graph := node.NewGraph()
	return &nodes{own, node.NewAuthorizer(graph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules()), graph,
		pods, volumes, attachments, slices}
}

// randomPod returns a pod that refers to some of the objects referred in several ways.
func (w world) randomPod(namespace, name string, referred ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.NodeName, p.Spec.ServiceAccountName = w.pick("", "n1", "n1", "n2"), w.pick("", "a", "b")
	if w.IntN(8) == 0 {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	ref := func() corev1.LocalObjectReference {
		return corev1.LocalObjectReference{Name: w.pick(referred...)}
	}
	env := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref()}}, {ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref()}}}
	one := env[w.IntN(2):][:1]
	switch w.IntN(4) {
	case 0:
		p.Spec.InitContainers = []corev1.Container{{EnvFrom: one}}
	case 1:
		p.Spec.Containers = []corev1.Container{{EnvFrom: one}}
	case 2:
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: one}}}
	case 3:
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{ref()}
	}
	inner := ref()
	for i, v := range []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{SecretName: inner.Name}}, {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: inner}},
		{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: inner.Name}}, {Ephemeral: &corev1.EphemeralVolumeSource{}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: inner}}}}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &inner}}, {AzureFile: &corev1.AzureFileVolumeSource{SecretName: inner.Name}},
		{RBD: &corev1.RBDVolumeSource{SecretRef: &inner}}, {ISCSI: &corev1.ISCSIVolumeSource{SecretRef: &inner}}, {FlexVolume: &corev1.FlexVolumeSource{SecretRef: &inner}},
	} {
		if w.IntN(5) == 0 {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v})
		}
	}
	claim := w.pick("a", "b")
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: &claim}, {Name: "y", ResourceClaimTemplateName: &claim}}[:w.IntN(3)]
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "y", ResourceClaimName: &claim}}[:w.IntN(2)]
	return p
}

func (w world) randomVolume(name string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if w.IntN(5) > 0 {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: w.pick("x", "y"), Name: w.pick("a", "b", "c", "p1-v3")}
	}
	ref := func() *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: w.pick("", "x", "y"), Name: w.pick("a", "b", "c")}
	}
	switch w.IntN(5) {
	case 0:
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{NodePublishSecretRef: ref(), ControllerPublishSecretRef: ref(), NodeStageSecretRef: ref()}
	case 1:
		v.Spec.RBD = &corev1.RBDPersistentVolumeSource{SecretRef: ref()}
	case 2:
		v.Spec.AzureFile = &corev1.AzureFilePersistentVolumeSource{SecretName: w.pick("a", "b"), SecretNamespace: &[]string{w.pick("", "x")}[0]}
	case 3:
		v.Spec.Cinder = &corev1.CinderPersistentVolumeSource{SecretRef: ref()}
	}
	return v
}

// known holds the existing objects by key.
type known struct {
	pods     map[string]*corev1.Pod
	volumes  map[string]*corev1.PersistentVolume
	attached map[string]*storagev1.VolumeAttachment
	slices   map[string]*resourcev1.ResourceSlice
}

// change makes one random change to both.
func (w world) change(n *nodes, k known) {
	gone := w.IntN(4) == 0
	switch w.IntN(6) {
	case 0, 1, 2:
		namespace, name := w.pick("x", "y"), w.pick("p1", "p2", "p3")
		delete(k.pods, namespace+"/"+name)
		// kubelets receive the deletion of a pod before its name is used again
		n.pods.Delete(namespace + "/" + name)
		n.graph.DeletePod(name, namespace)
		if !gone {
			p := w.randomPod(namespace, name, "", "a", "b", "c")
			k.pods[namespace+"/"+name] = p
			n.pods.Put(p)
			if p.Spec.NodeName != "" {
				n.graph.AddPod(p)
			}
		}
	case 3:
		name := w.pick("v1", "v2", "v3")
		if gone && k.volumes[name] != nil {
			delete(k.volumes, name)
			n.volumes.Delete(name)
			n.graph.DeletePV(name)
		} else if !gone {
			v := w.randomVolume(name)
			k.volumes[name] = v
			n.volumes.Put(v)
			n.graph.AddPV(v)
		}
	case 4:
		name := w.pick("a", "b")
		if gone && k.attached[name] != nil {
			delete(k.attached, name)
			n.attachments.Delete(name)
			n.graph.DeleteVolumeAttachment(name)
		} else if !gone {
			a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: w.pick("n1", "n2")}}
			k.attached[name] = a
			n.attachments.Put(a)
			n.graph.AddVolumeAttachment(name, a.Spec.NodeName)
		}
	case 5:
		name := w.pick("a", "b")
		if gone && k.slices[name] != nil {
			delete(k.slices, name)
			n.slices.Delete(name)
			n.graph.DeleteResourceSlice(name)
		} else if !gone {
			s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if of := w.pick("", "n1", "n2"); of != "" || w.IntN(2) == 0 {
				s.Spec.NodeName = &of
			}
			k.slices[name] = s
			n.slices.Put(s)
			n.graph.AddResourceSlice(name, ptr.Deref(s.Spec.NodeName, ""))
		}
	}
}

func (w world) nodeRequest() authz.Attributes {
	u := &user.Info{Name: w.pick("system:node:n1", "system:node:n1", "system:node:n2", "system:node:", "system:node:n3", "jane"), Groups: []string{w.pick(user.Nodes, user.Nodes, user.Nodes, "x")}}
	a := authz.Attributes{User: u, Verb: w.pick("get", "get", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		Namespace: w.pick("x", "y"), Name: w.pick("a", "b", "c", "p1", "p2", "p1-v3", "v1", "v2", "n1", "n2", ""), Subresource: w.pick("", "", "", "", "status", "token", "eviction")}
	switch w.IntN(12) {
	case 0, 1, 2:
		a.Resource = "secrets"
	case 3:
		a.Resource = "configmaps"
	case 4:
		a.Resource = "persistentvolumeclaims"
	case 5:
		a.Resource, a.Namespace = "persistentvolumes", ""
	case 6:
		a.Resource = "serviceaccounts"
	case 7:
		a.Resource = "pods"
	case 8:
		a.Resource, a.Namespace = "nodes", ""
	case 9:
		a.Group, a.Resource = "resource.k8s.io", w.pick("resourceclaims", "resourceslices", "deviceclasses")
		if a.Resource != "resourceclaims" {
			a.Namespace = ""
		}
	case 10:
		a.Group, a.Namespace = "storage.k8s.io", ""
		a.Resource = w.pick("volumeattachments", "csinodes", "csidrivers")
	case 11:
		a.Group, a.Resource, a.Namespace = "coordination.k8s.io", "leases", w.pick("kube-node-lease", "kube-node-lease", "x")
		if w.IntN(2) == 0 {
			a.Group, a.Resource = w.pick("", "apps"), w.pick("services", "events", "endpoints", "deployments")
		}
	}
	if selector := w.pick("", "", "spec.nodeName=n1", "spec.nodeName==n1", "spec.nodeName!=n1", "spec.nodeName=n2", "status.phase=x,spec.nodeName=n1", "nodeName=n1", "spec.nodeName="); selector != "" {
		var err error
		if a.Fields, err = requirement.Fields(selector); err != nil {
			panic(err) // all of these are valid
		}
	}
	return a
}

// TestSameNodes asks both node authorizers the same random questions while pods, volumes and
// attachments are created and deleted: the answers and reasons are equal.
func TestSameNodes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d decisions", seed, *decisions)
	w := world{rand.New(rand.NewPCG(seed, 0))}
	n := newNodes(t)
	k := known{map[string]*corev1.Pod{}, map[string]*corev1.PersistentVolume{}, map[string]*storagev1.VolumeAttachment{}, map[string]*resourcev1.ResourceSlice{}}
	allowed, asked := 0, 0
	for asked < *decisions {
		w.change(n, k)
		for range 20 {
			q := w.nodeRequest()
			asked++
			d, reason, err := n.own.Authorize(t.Context(), q)
			ds, stockReason, stockErr := n.stock.Authorize(t.Context(), forStock(q))
			if (d == authz.Allow) != (ds == authorizer.DecisionAllow) || reason != stockReason || err != nil || stockErr != nil {
				t.Fatalf("seed %d, decision %d: %+v of %+v\nplanekit %v %q %v\nstock %v %q %v", seed, asked, q, q.User, d, reason, err, ds, stockReason, stockErr)
			}
			if d == authz.Allow {
				allowed++
			}
		}
	}
	t.Logf("%d of %d allowed", allowed, asked)
	if allowed < asked/50 {
		t.Errorf("seed %d: %d of %d allowed shows little", seed, allowed, asked)
	}
}
