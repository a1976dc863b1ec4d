package randomcluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Storage holds the objects of a cluster that say where volumes are.
type Storage struct {
	Claims      []*corev1.PersistentVolumeClaim
	Volumes     []*corev1.PersistentVolume
	Classes     []*storagev1.StorageClass
	CSINodes    []*storagev1.CSINode
	Attachments []*storagev1.VolumeAttachment
}

const (
	csiDriver   = "csi.example.com"
	ebsDriver   = "ebs.csi.aws.com"
	gceDriver   = "pd.csi.storage.gke.io"
	localClass  = "local"
	sharedClass = "shared"
	atOnceClass = "at-once"
	claimCount  = 6
)

// claimUses are the numbers of claims that pods name; those above claimCount do not exist.
var claimUses = []int{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, claimCount}

// claimName returns the name of a claim. No two namespaces have the same ones, which kube-scheduler confuses
// when it preempts.
func claimName(namespace string, i int) string { return fmt.Sprintf("%s-%d", namespace, i) }

// storage makes the objects of Storage for the nodes.
func (c *Cluster) storage() {
	waits, atOnce := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	c.Classes = []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: localClass}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &waits},
		{ObjectMeta: metav1.ObjectMeta{Name: sharedClass}, Provisioner: one(c, []string{csiDriver, "kubernetes.io/aws-ebs"}), VolumeBindingMode: &waits},
		{ObjectMeta: metav1.ObjectMeta{Name: atOnceClass}, Provisioner: csiDriver, VolumeBindingMode: &atOnce},
	}
	for i := range 3 {
		c.Volumes = append(c.Volumes, c.volume(fmt.Sprintf("local-%d", i), localClass))
	}
	// There are enough volumes of this class for all claims of a pod, so that none must be made.
	for i := range 8 {
		v := c.volume(fmt.Sprintf("shared-%d", i), sharedClass)
		v.Spec.NodeAffinity = nil
		c.Volumes = append(c.Volumes, v)
	}
	for _, namespace := range namespaceNames {
		for i := range claimCount {
			c.Claims = append(c.Claims, c.claim(namespace, claimName(namespace, i)))
		}
	}
	for _, n := range c.Nodes {
		if !c.chance(4) {
			c.CSINodes = append(c.CSINodes, c.csiNode(n.Name))
		}
		if c.chance(3) {
			c.Attachments = append(c.Attachments, c.attachment(n.Name))
		}
	}
}

// volume returns a free volume of a class.
func (c *Cluster) volume(name, class string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	v.Spec.StorageClassName = class
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: quantity(1+c.r.IntN(3), "Gi")}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	v.Status.Phase = corev1.VolumeAvailable
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: one(c, []string{csiDriver, csiDriver, ebsDriver}), VolumeHandle: one(c, []string{name, "vol-1", "vol-2"})}
	if c.chance(2) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{c.nodeTerm()}}}
	}
	return v
}

// boundVolume returns a volume that a claim has.
func (c *Cluster) boundVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	v := c.volume("of-"+claim.Namespace+"-"+claim.Name, *claim.Spec.StorageClassName)
	v.Status.Phase = corev1.VolumeBound
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	switch c.r.IntN(8) {
	case 0: // not of a driver
		v.Spec.CSI, v.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/data"}
	case 1:
		v.Spec.CSI, v.Spec.AWSElasticBlockStore = nil, &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: one(c, []string{"vol-1", "aws://a/vol-2"})}
		return v
	case 2:
		v.Spec.CSI, v.Spec.GCEPersistentDisk = nil, &corev1.GCEPersistentDiskVolumeSource{PDName: "disk-1"}
		return v
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone} {
		if c.chance(3) {
			v.Labels[key] = one(c, []string{"a", "b", "a__b", " a__c", "", "a__", "nowhere"})
		}
	}
	if c.chance(8) {
		v.Labels[corev1.LabelTopologyRegion] = one(c, []string{"r", "s"})
	}
	return v
}

// claim returns a claim and adds its volume, if it has one.
func (c *Cluster) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)}}
	claim.Spec.StorageClassName = new(one(c, []string{localClass, sharedClass, atOnceClass}))
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	if c.chance(3) {
		claim.Spec.AccessModes[0] = corev1.ReadWriteOncePod
	}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: quantity(1, "Gi")}
	claim.Status.Phase = corev1.ClaimPending
	if c.chance(4) && *claim.Spec.StorageClassName != atOnceClass {
		return claim
	}
	if c.chance(20) {
		return claim
	}
	v := c.boundVolume(claim)
	claim.Spec.VolumeName, claim.Status.Phase = v.Name, corev1.ClaimBound
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	switch c.r.IntN(30) {
	case 0:
		claim.Status.Phase = corev1.ClaimLost
	case 1:
		claim.DeletionTimestamp = &metav1.Time{}
		claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	case 2: // its volume does not exist
	default:
		c.Volumes = append(c.Volumes, v)
	}
	return claim
}

func (c *Cluster) csiNode(name string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, driver := range []string{csiDriver, ebsDriver, gceDriver} {
		d := storagev1.CSINodeDriver{Name: driver, NodeID: name}
		if !c.chance(4) {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: new(c.r.Int32N(4))}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

func (c *Cluster) attachment(node string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attachment-" + node}}
	a.Spec.NodeName, a.Spec.Attacher = node, one(c, []string{csiDriver, ebsDriver})
	a.Spec.Source.PersistentVolumeName = new(one(c, c.Volumes).Name)
	return a
}

// podVolumes returns the volumes of a pod: claims, each once, and disks.
func (c *Cluster) podVolumes(namespace string) (list []corev1.Volume) {
	var claims []int
	for c.chance(2) {
		if n := one(c, claimUses); !slices.Contains(claims, n) {
			claims = append(claims, n)
		}
	}
	for _, n := range claims {
		name := claimName(namespace, n)
		list = append(list, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	if c.chance(4) {
		list = append(list, corev1.Volume{Name: "disk", VolumeSource: c.disk()})
	}
	return list
}

func (c *Cluster) disk() corev1.VolumeSource {
	readOnly, name := c.chance(2), one(c, []string{"vol-1", "vol-2"})
	return one(c, []corev1.VolumeSource{
		{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: name, ReadOnly: readOnly}},
		{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/" + name}},
		{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}},
		{ISCSI: &corev1.ISCSIVolumeSource{IQN: name, ReadOnly: readOnly}},
		{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{one(c, []string{"m1", "m2"}), "m3"}, RBDPool: "pool", RBDImage: name, ReadOnly: readOnly}},
		{Cinder: &corev1.CinderVolumeSource{VolumeID: name}},
		{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: name, Kind: new(one(c, []corev1.AzureDataDiskKind{corev1.AzureManagedDisk}))}},
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
}

// freeClaims removes the volumes of a pod with a claim that is for one pod only and that another pod has.
func (c *Cluster) freeClaims(pod *corev1.Pod, taken map[string]bool) {
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		i := slices.IndexFunc(c.Claims, func(claim *corev1.PersistentVolumeClaim) bool {
			return claim.Namespace == pod.Namespace && claim.Name == v.PersistentVolumeClaim.ClaimName
		})
		if i < 0 || !slices.Contains(c.Claims[i].Spec.AccessModes, corev1.ReadWriteOncePod) {
			return false
		}
		key := pod.Namespace + "/" + c.Claims[i].Name
		was := taken[key]
		taken[key] = true
		return was
	})
}

// ephemeral gives a pod an ephemeral volume and adds its claim.
func (c *Cluster) ephemeral(pod *corev1.Pod) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	claim := c.claim(pod.Namespace, pod.Name+"-scratch")
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
	c.Claims = append(c.Claims, claim)
}
