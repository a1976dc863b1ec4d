package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/node"
	"github.com/planekit/planekit/localcache"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// feed is a cache that tells when it has been subscribed to.
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

// cluster is an authorizer that runs and what it follows.
type cluster struct {
	*node.Authorizer
	pods        *feed[*corev1.Pod]
	volumes     *feed[*corev1.PersistentVolume]
	attachments *feed[*storagev1.VolumeAttachment]
	slices      *feed[*resourcev1.ResourceSlice]
}

func start(t testing.TB, rest authz.Authorizer) *cluster {
	t.Helper()
	c := &cluster{pods: newFeed[*corev1.Pod](), volumes: newFeed[*corev1.PersistentVolume](), attachments: newFeed[*storagev1.VolumeAttachment](),
		slices: newFeed[*resourcev1.ResourceSlice]()}
	a, err := node.New(node.Config{Pods: c.pods, Volumes: c.volumes, Attachments: c.attachments, Slices: c.slices, Rest: rest})
	if err != nil {
		t.Fatal(err)
	}
	c.Authorizer = a
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-c.pods.ready
	<-c.volumes.ready
	<-c.attachments.ready
	<-c.slices.ready
	return c
}

func kubelet(name string) *user.Info {
	return &user.Info{Name: user.NodePrefix + name, Groups: []string{user.Nodes, user.Authenticated}}
}

// ask takes a request as "verb group/resource/subresource namespace/name field=value".
func (c *cluster) ask(t testing.TB, u *user.Info, request string) (authz.Decision, string) {
	t.Helper()
	words := strings.Fields(request)
	what, where := strings.Split(words[1], "/"), strings.Split(words[2], "/")
	at := authz.Attributes{User: u, Verb: words[0], Group: what[0], Resource: what[1], Namespace: where[0], Name: where[1]}
	if len(what) > 2 {
		at.Subresource = what[2]
	}
	if len(words) > 3 {
		field, value, _ := strings.Cut(words[3], "=")
		at.Fields = []authz.Requirement{{Key: field, Operator: authz.In, Values: []string{value}}}
	}
	d, reason, err := c.Authorize(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return d, reason
}

// wants checks what the node n1 may.
func (c *cluster) wants(t *testing.T, want authz.Decision, reason string, requests ...string) {
	t.Helper()
	for _, r := range requests {
		if d, got := c.ask(t, kubelet("n1"), r); d != want || got != reason {
			t.Errorf("ask(n1, %q) = %v, %q, want %v, %q", r, d, got, want, reason)
		}
	}
}

func Example() {
	pods := newFeed[*corev1.Pod]()
	nodes, err := node.New(node.Config{Pods: pods})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- nodes.Run(ctx) }()
	<-pods.ready
	pods.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "n1", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}},
	})
	for _, name := range []string{"n1", "n2"} {
		decision, reason, _ := nodes.Authorize(ctx, authz.Attributes{
			User: &user.Info{Name: user.NodePrefix + name, Groups: []string{user.Nodes}},
			Verb: "get", Resource: "secrets", Namespace: "shop", Name: "registry",
		})
		fmt.Println(strings.TrimSpace(fmt.Sprint(name, " ", decision, " ", reason)))
	}
	cancel()
	<-done
	// Output:
	// n1 allow
	// n2 no opinion no relationship found between node 'n2' and this object
}

// everything refers to objects in every way there is.
func everything() *corev1.Pod {
	env := func(name string) corev1.Container {
		return corev1.Container{
			EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local(name + "-from")}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local(name + "-from")}},
			},
			Env: []corev1.EnvVar{{Name: "plain", Value: "x"},
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local(name + "-key")}}},
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local(name + "-key")}}}},
		}
	}
	ref := func(name string) *corev1.LocalObjectReference { r := local(name); return &r }
	made := "made"
	named := "named"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all"}, Spec: corev1.PodSpec{
		NodeName: "n1", ServiceAccountName: "robot", ImagePullSecrets: []corev1.LocalObjectReference{local("pull")},
		InitContainers: []corev1.Container{env("init")}, Containers: []corev1.Container{env("main")},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(env("debug"))}},
		ResourceClaims:      []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: &named}, {Name: "b", ResourceClaimTemplateName: &named}},
	}}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: &made}}
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
	for i, source := range []corev1.VolumeSource{
		{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}},
		{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("volume")}},
		{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}},
		{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: local("projected")}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("projected")}},
		}}},
		{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}},
		{CephFS: &corev1.CephFSVolumeSource{SecretRef: ref("ceph")}},
		{Cinder: &corev1.CinderVolumeSource{SecretRef: ref("cinder")}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref("csi")}},
		{FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref("flex")}},
		{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref("iscsi")}},
		{RBD: &corev1.RBDVolumeSource{SecretRef: ref("rbd")}},
		{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref("scaleio")}},
		{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref("storageos")}},
		{ISCSI: &corev1.ISCSIVolumeSource{}},
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	} {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: source})
	}
	return p
}

func local(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// TestReferences: a node reads what its pods refer to, in whichever way they do,
// while they are bound to it.
func TestReferences(t *testing.T) {
	c := start(t, nil)
	p := everything()
	var opened []string
	for _, name := range strings.Fields("pull init-from init-key main-from main-key debug-from debug-key volume projected " +
		"azure ceph cinder csi flex iscsi rbd scaleio storageos") {
		opened = append(opened, "get /secrets shop/"+name, "list /secrets shop/"+name, "watch /secrets shop/"+name)
	}
	for _, name := range strings.Fields("init-from init-key main-from main-key debug-from debug-key volume projected") {
		opened = append(opened, "get /configmaps shop/"+name, "watch /configmaps shop/"+name)
	}
	opened = append(opened, "get /pods shop/all", "watch /pods shop/all", "get /serviceaccounts shop/robot", "create /serviceaccounts/token shop/robot",
		"get /persistentvolumeclaims shop/disk", "get /persistentvolumeclaims shop/all-v3", "patch /persistentvolumeclaims/status shop/disk",
		"get resource.k8s.io/resourceclaims shop/named", "get resource.k8s.io/resourceclaims shop/made", "get resource.k8s.io/resourceclaims shop/extended")
	none := "no relationship found between node 'n1' and this object"

	c.wants(t, authz.NoOpinion, none, opened...)
	waiting := p.DeepCopy()
	waiting.Spec.NodeName = ""
	c.pods.Put(waiting)
	c.wants(t, authz.NoOpinion, none, opened...)
	c.pods.Put(p)
	c.wants(t, authz.Allow, "", opened...)
	c.wants(t, authz.NoOpinion, none, "get /secrets shop/other", "get /secrets other/pull", "get /configmaps shop/pull",
		"create /serviceaccounts/token shop/other", "get /pods shop/other", "get /persistentvolumeclaims other/disk")
	for _, u := range []*user.Info{kubelet("n2"), {Name: user.NodePrefix + "n1"}, {Name: "n1", Groups: []string{user.Nodes}}, nil} {
		if d, _ := c.ask(t, u, opened[0]); d != authz.NoOpinion {
			t.Errorf("ask(%+v, %q) = %v, want %v", u, opened[0], d, authz.NoOpinion)
		}
	}
	c.pods.Delete(localcache.KeyOf(p))
	c.wants(t, authz.NoOpinion, none, opened...)

	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	c.pods.Put(p)
	c.wants(t, authz.Allow, "", "get /pods shop/all")
	c.wants(t, authz.NoOpinion, none, "get /secrets shop/pull", "create /serviceaccounts/token shop/robot")
}

// TestVolumes: what a volume opens follows its claim, in either order.
func TestVolumes(t *testing.T) {
	none := "no relationship found between node 'n1' and this object"
	at := func(namespace, name string) *corev1.SecretReference {
		return &corev1.SecretReference{Namespace: namespace, Name: name}
	}
	kept := "kept"
	for name, test := range map[string]struct {
		source         corev1.PersistentVolumeSource
		opened, closed []string
	}{
		"csi": {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			NodePublishSecretRef: at("kept", "publish"), NodeStageSecretRef: at("kept", "stage"), NodeExpandSecretRef: at("kept", "expand"),
			ControllerPublishSecretRef: at("kept", "controller"), ControllerExpandSecretRef: at("kept", "controller"),
		}}, []string{"kept/publish", "kept/stage", "kept/expand"}, []string{"kept/controller", "shop/publish"}},
		"azure":     {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s"}}, []string{"shop/s"}, nil},
		"azure far": {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", SecretNamespace: &kept}}, []string{"kept/s"}, []string{"shop/s"}},
		"ceph":      {corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{SecretRef: at("", "s")}}, []string{"shop/s"}, nil},
		"flex":      {corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{SecretRef: at("kept", "s")}}, []string{"kept/s"}, []string{"shop/s"}},
		"iscsi":     {corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{SecretRef: at("", "s")}}, []string{"shop/s"}, nil},
		"rbd":       {corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{SecretRef: at("", "s")}}, []string{"shop/s"}, nil},
		"scaleio":   {corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{SecretRef: at("kept", "s")}}, []string{"kept/s"}, nil},
		"storageos": {corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{SecretRef: &corev1.ObjectReference{Namespace: "kept", Name: "s"}}}, []string{"kept/s"}, nil},
		"cinder":    {corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: at("kept", "s")}}, []string{"kept/s"}, nil},
		"plain":     {corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}, nil, []string{"shop/s"}},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: test.source, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "disk"}}}
			free := volume.DeepCopy()
			free.Spec.ClaimRef = nil
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n1", Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}}}
			opened := []string{"get /persistentvolumes /pv"}
			for _, s := range test.opened {
				opened = append(opened, "get /secrets "+s)
			}
			c := start(t, nil)
			c.volumes.Put(free)
			c.pods.Put(pod)
			c.wants(t, authz.NoOpinion, none, opened...)
			c.volumes.Put(volume)
			c.wants(t, authz.Allow, "", opened...)
			for _, s := range test.closed {
				c.wants(t, authz.NoOpinion, none, "get /secrets "+s)
			}
			c.pods.Delete(localcache.KeyOf(pod))
			c.wants(t, authz.NoOpinion, none, opened...)
			c.pods.Put(pod)
			c.wants(t, authz.Allow, "", opened...)
			c.volumes.Delete("pv")
			c.wants(t, authz.NoOpinion, none, opened...)
		})
	}
}

// TestLimits: each resource has its own limits and words.
func TestLimits(t *testing.T) {
	rest := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.Allow, "rest", nil
	})
	c := start(t, rest)
	c.attachments.Put(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}})
	c.attachments.Put(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n2"}})

	first, second := "n1", "n2"
	slice := func(name string, node *string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{NodeName: node}}
	}
	c.slices.Put(slice("a", &first))
	c.slices.Put(slice("a", &first))
	c.slices.Put(slice("b", &first))
	c.slices.Put(slice("b", &second))
	c.slices.Put(slice("c", &first))
	c.slices.Delete("c")
	c.slices.Put(slice("c", nil))

	c.wants(t, authz.Allow, "rest", "get /services shop/web", "create /events shop/", "get node.k8s.io/runtimeclasses /x",
		"get x.io/secrets shop/x")
	c.wants(t, authz.Allow, "", "get /nodes /n1", "list /nodes /n1", "watch /nodes /n1", "create /nodes /", "update /nodes /n1", "patch /nodes/status /n1",
		"get coordination.k8s.io/leases kube-node-lease/n1", "create coordination.k8s.io/leases kube-node-lease/", "update coordination.k8s.io/leases kube-node-lease/n1",
		"get storage.k8s.io/csinodes /n1", "create storage.k8s.io/csinodes /", "delete storage.k8s.io/csinodes /n1",
		"get resource.k8s.io/resourceslices /a", "update resource.k8s.io/resourceslices /a", "create resource.k8s.io/resourceslices /",
		"list /pods / spec.nodeName=n1", "watch /pods shop/ spec.nodeName=n1", "list /pods shop/x spec.nodeName=n1",
		"list resource.k8s.io/resourceslices / spec.nodeName=n1", "deletecollection resource.k8s.io/resourceslices / spec.nodeName=n1",
		"get storage.k8s.io/volumeattachments /a", "create /pods shop/", "delete /pods shop/x", "update /pods/status shop/x", "create /pods/eviction shop/x")
	for reason, requests := range map[string][]string{
		"":                                     {"delete /nodes /n1", "deletecollection /nodes /", "update /pods shop/x", "create /pods/exec shop/x", "create /pods/binding shop/x", "get /nodes/proxy /n1"},
		"No Object name found":                 {"get /secrets shop/", "list /secrets shop/"},
		"cannot read subresource":              {"get /secrets/status shop/x"},
		"cannot get subresource":               {"get /persistentvolumes/status /x"},
		"can only read resources of this type": {"update /secrets shop/x", "delete /configmaps shop/x"},
		"can only read namespaced object of this type":                                                                                {"list /secrets /", "get /configmaps /x"},
		"can only get individual resources of this type":                                                                              {"list /persistentvolumes /x", "update /persistentvolumeclaims shop/x", "list storage.k8s.io/volumeattachments /"},
		"can only get/update/patch this type":                                                                                         {"get /persistentvolumeclaims/status shop/x"},
		"can only create tokens for individual service accounts":                                                                      {"create /serviceaccounts/token shop/", "list /serviceaccounts shop/"},
		"can only create token subresource of serviceaccount":                                                                         {"create /serviceaccounts shop/x"},
		"can only get, create, update, patch, or delete a node lease":                                                                 {"list coordination.k8s.io/leases kube-node-lease/n1"},
		`can only access leases in the "kube-node-lease" system namespace`:                                                            {"get coordination.k8s.io/leases kube-system/n1"},
		"can only access node lease with the same name as the requesting node":                                                        {"update coordination.k8s.io/leases kube-node-lease/n2"},
		"can only get, create, update, patch, or delete a CSINode":                                                                    {"watch storage.k8s.io/csinodes /n1"},
		"cannot authorize CSINode subresources":                                                                                       {"get storage.k8s.io/csinodes/status /n1"},
		"can only access CSINode with the same name as the requesting node":                                                           {"get storage.k8s.io/csinodes /n2"},
		"node 'n1' cannot read all nodes, only its own Node object":                                                                   {"list /nodes /"},
		"node 'n1' cannot read 'n2', only its own Node object":                                                                        {"get /nodes /n2", "watch /nodes /n2"},
		"no relationship found between node 'n1' and this object":                                                                     {"get storage.k8s.io/volumeattachments /b", "get resource.k8s.io/resourceslices /b", "delete resource.k8s.io/resourceslices /c", "list /pods shop/x spec.nodeName=n2"},
		"can only list/watch pods with spec.nodeName field selector":                                                                  {"list /pods /", "watch /pods shop/", "list /pods / spec.nodeName=n2", "list /pods / spec.nodeName=", "list /pods / status.phase=n1"},
		"can only list/watch/deletecollection resourceslices with nodeName field selector":                                            {"list resource.k8s.io/resourceslices /", "watch resource.k8s.io/resourceslices / spec.nodeName=n2"},
		"cannot authorize ResourceSlice subresources":                                                                                 {"get resource.k8s.io/resourceslices/status /a"},
		"only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection": {"bind resource.k8s.io/resourceslices /a"},
	} {
		c.wants(t, authz.NoOpinion, reason, requests...)
	}
	if d, reason := c.ask(t, kubelet(""), "get /nodes /n1"); d != authz.NoOpinion || reason != `unknown node for user "system:node:"` {
		t.Errorf("a node without a name: %v %q", d, reason)
	}
	if d, reason, err := start(t, nil).Authorize(t.Context(), authz.Attributes{User: kubelet("n1"), Verb: "get", Path: "/metrics"}); d != authz.NoOpinion || reason != "" || err != nil {
		t.Errorf("without Rest: %v %q %v", d, reason, err)
	}
}

func TestRulesFor(t *testing.T) {
	c := start(t, nil)
	if r, err := c.RulesFor(t.Context(), kubelet("n1"), "shop"); !r.Incomplete || !errors.Is(err, node.ErrNoRules) {
		t.Errorf("RulesFor(n1) = %+v, %v, want incomplete rules and ErrNoRules", r, err)
	}
	if r, err := c.RulesFor(t.Context(), &user.Info{Name: "jane"}, "shop"); r.Incomplete || err != nil {
		t.Errorf("RulesFor(jane) = %+v, %v, want complete rules and no error", r, err)
	}
	if _, err := node.New(node.Config{}); err == nil {
		t.Error("no pods, no error")
	}
}
