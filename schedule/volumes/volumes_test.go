package volumes_test

import (
	"fmt"
	"log"
	"testing"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/volumes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const driver = "csi.example.com"

// world holds the caches of a cluster with the node n1 in zone a and n2 in zone b.
type world struct {
	nodes       []*corev1.Node
	pods        []*corev1.Pod
	claims      *localcache.Map[*corev1.PersistentVolumeClaim]
	volumes     *localcache.Map[*corev1.PersistentVolume]
	classes     *localcache.Map[*storagev1.StorageClass]
	csiNodes    *localcache.Map[*storagev1.CSINode]
	attachments *localcache.Map[*storagev1.VolumeAttachment]
}

func newWorld() *world {
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	return &world{
		nodes:   []*corev1.Node{node("n1", "a"), node("n2", "b")},
		claims:  localcache.NewMap[*corev1.PersistentVolumeClaim](),
		volumes: localcache.NewMap[*corev1.PersistentVolume](),
		classes: localcache.NewMap(
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "waits"}, Provisioner: driver, VolumeBindingMode: &waits},
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "ebs"}, Provisioner: "kubernetes.io/aws-ebs", VolumeBindingMode: &waits},
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "files"}, Provisioner: "kubernetes.io/azure-file", VolumeBindingMode: &waits},
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "at-once"}, Provisioner: driver, VolumeBindingMode: new(storagev1.VolumeBindingImmediate)},
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "odd"}, Provisioner: driver},
		),
		csiNodes:    localcache.NewMap[*storagev1.CSINode](),
		attachments: localcache.NewMap[*storagev1.VolumeAttachment](),
	}
}

func (w *world) checker() *volumes.Checker {
	c, err := volumes.New(volumes.Config{
		Claims: w.claims, Volumes: w.volumes, Classes: w.classes, CSINodes: w.csiNodes, Attachments: w.attachments,
		AttachmentsByNode: localcache.Scan(w.attachments, func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} }),
	})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// decide returns the chosen node or the message of a decision by one predicate.
func (w *world) decide(p schedule.Predicate, pod *corev1.Pod) string {
	s := schedule.NewState([]schedule.Predicate{p}, nil, 1)
	for _, n := range w.nodes {
		s.SetNode(n)
	}
	for _, p := range w.pods {
		s.SetPod(schedule.NewPodInfo(p))
	}
	chosen, unfit := s.Decide(schedule.NewPodInfo(pod))
	if unfit != nil {
		return unfit.Error()
	}
	return chosen
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
}

// claim returns a claim with a volume; an empty name is one without.
func claim(name, class, volume string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	if c.Spec.VolumeName = volume; class != "" {
		c.Spec.StorageClassName = &class
	}
	return c
}

func exclusive(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	return c
}

// csi returns a volume of a driver.
func csi(name, handle string) *corev1.PersistentVolume {
	return persistent(name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}})
}

func persistent(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.PersistentVolumeSource = source
	return v
}

func labelled(v *corev1.PersistentVolume, labels map[string]string) *corev1.PersistentVolume {
	v.Labels = labels
	return v
}

// limited returns the CSINode of a node whose driver has a limit.
func limited(name, driver string, limit int32) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &limit}}}
	return n
}

func ofClaim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// pod returns a pod with volumes; an empty node is none.
func pod(name, node string, sources ...corev1.VolumeSource) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.NodeName = node
	for i, s := range sources {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: s})
	}
	return p
}

// A node can attach one volume of a driver, and has it.
func Example() {
	w := newWorld()
	checks, err := volumes.New(volumes.Config{Claims: w.claims, Volumes: w.volumes, Classes: w.classes, CSINodes: w.csiNodes})
	if err != nil {
		log.Fatal(err)
	}
	w.csiNodes.Put(limited("n1", driver, 1))
	w.csiNodes.Put(limited("n2", driver, 2))
	for _, name := range []string{"data", "more", "logs"} {
		w.volumes.Put(csi("disk-"+name, name))
		w.claims.Put(claim(name, "", "disk-"+name))
	}
	state := schedule.NewState(append([]schedule.Predicate{checks.Restrictions(), checks.Limits(), checks.Zone()}, predicates.Default()...), nil, 1)
	for _, n := range w.nodes {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *quantity(10)}
		state.SetNode(n)
	}
	state.SetPod(schedule.NewPodInfo(pod("db", "n1", ofClaim("data"))))
	state.SetPod(schedule.NewPodInfo(pod("files", "n2", ofClaim("more"))))
	fmt.Println(state.Decide(schedule.NewPodInfo(pod("web", "", ofClaim("logs")))))
	state.SetPod(schedule.NewPodInfo(pod("old", "n2", ofClaim("logs"))))
	_, unfit := state.Decide(schedule.NewPodInfo(pod("web", "", ofClaim("data"), ofClaim("logs"), ofClaim("more"))))
	fmt.Println(unfit)
	// Output:
	// n2 <nil>
	// 0/2 nodes are available: 2 node(s) exceed max volume count.
}

func TestConfig(t *testing.T) {
	w := newWorld()
	for _, bad := range []volumes.Config{
		{},
		{Claims: w.claims, Volumes: w.volumes, Classes: w.classes, Attachments: w.attachments},
	} {
		if _, err := volumes.New(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if n := len(w.checker().Sources()); n != 5 {
		t.Errorf("%d sources", n)
	}
}
