package volumes

import (
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// volume identifies a volume of a CSI driver.
type volume struct {
	driver string
	// handle is the driver's name of the volume. It is empty for a claim without a volume, which claim
	// names instead.
	handle, claim string
}

// The drivers that have replaced volume types of Kubernetes.
const (
	ebs      = "ebs.csi.aws.com"
	gcePD    = "pd.csi.storage.gke.io"
	azure    = "disk.csi.azure.com"
	cinder   = "cinder.csi.openstack.org"
	portworx = "pxd.portworx.com"
)

// driverOf returns the driver of volumes that a provisioner makes; ok is false if they do not count.
func driverOf(provisioner string) (driver string, ok bool) {
	switch provisioner {
	case "kubernetes.io/aws-ebs":
		return ebs, true
	case "kubernetes.io/gce-pd":
		return gcePD, true
	case "kubernetes.io/azure-disk":
		return azure, true
	case "kubernetes.io/cinder":
		return cinder, true
	case "kubernetes.io/portworx-volume":
		return portworx, true
	case "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume":
		return "", false
	}
	return provisioner, provisioner != ""
}

// isMigrated reports whether a volume of a pod is of a type that a driver has replaced.
func isMigrated(v *corev1.Volume) bool {
	return v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.Cinder != nil || v.PortworxVolume != nil
}

// inline returns the volume of a driver that a volume of a pod names; ok is false if it names none.
// https://kubernetes.io/docs/concepts/storage/volumes/#csi-migration
func inline(v *corev1.Volume) (found volume, ok bool) {
	switch {
	case v.AWSElasticBlockStore != nil:
		return identify(ebs, ebsID(v.AWSElasticBlockStore.VolumeID))
	case v.GCEPersistentDisk != nil:
		return identify(gcePD, zonalDisk(unspecified, v.GCEPersistentDisk.PDName))
	case v.AzureDisk != nil && isManaged(v.AzureDisk):
		return identify(azure, v.AzureDisk.DataDiskURI)
	case v.Cinder != nil:
		return identify(cinder, v.Cinder.VolumeID)
	case v.PortworxVolume != nil:
		return identify(portworx, v.PortworxVolume.VolumeID)
	}
	return volume{}, false
}

// ofPersistent returns the volume of a driver behind a persistent volume; ok is false if there is none.
func ofPersistent(v *corev1.PersistentVolume) (found volume, ok bool) {
	switch s := &v.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		return identify(s.CSI.Driver, s.CSI.VolumeHandle)
	case s.AWSElasticBlockStore != nil:
		return identify(ebs, ebsID(s.AWSElasticBlockStore.VolumeID))
	case s.GCEPersistentDisk != nil:
		return identify(gcePD, gceDisk(v))
	case s.AzureDisk != nil && isManaged(s.AzureDisk):
		return identify(azure, s.AzureDisk.DataDiskURI)
	case s.Cinder != nil:
		return identify(cinder, s.Cinder.VolumeID)
	case s.PortworxVolume != nil:
		return identify(portworx, s.PortworxVolume.VolumeID)
	}
	return volume{}, false
}

func identify(driver, handle string) (volume, bool) {
	return volume{driver: driver, handle: handle}, driver != "" && handle != ""
}

// ebsID returns the volume in a name such as vol-1 or aws://us-east-1a/vol-1, or "" if it has none.
func ebsID(name string) string {
	if !strings.HasPrefix(name, "aws://") {
		return name
	}
	u, err := url.Parse(name)
	if err != nil {
		return ""
	}
	id := strings.Trim(u.Path, "/")
	if !strings.HasPrefix(id, "vol-") || strings.Contains(id, "/") {
		return ""
	}
	return id
}

// unspecified stands for a project or zone that is not known.
const unspecified = "UNSPECIFIED"

func zonalDisk(zone, name string) string {
	return "projects/" + unspecified + "/zones/" + zone + "/disks/" + name
}

// gceDisk returns the handle of a disk that is in one zone or in several of a region, or "" if its labels
// make no sense.
func gceDisk(v *corev1.PersistentVolume) string {
	name, label := v.Spec.GCEPersistentDisk.PDName, v.Labels[corev1.LabelFailureDomainBetaZone]
	if label == "" {
		label = v.Labels[corev1.LabelTopologyZone]
	}
	zones := strings.Split(label, zoneSeparator)
	if len(zones) == 1 {
		if label == "" {
			label = unspecified
		}
		return zonalDisk(label, name)
	}
	region := ""
	for _, zone := range zones {
		parts := strings.Split(zone, "-")
		if len(parts) != 3 || region != "" && region != parts[0]+"-"+parts[1] {
			return ""
		}
		region = parts[0] + "-" + parts[1]
	}
	return "projects/" + unspecified + "/regions/" + region + "/disks/" + name
}

// isManaged reports whether a disk is one that the driver can attach.
func isManaged(s *corev1.AzureDiskVolumeSource) bool {
	return s.Kind == nil || strings.EqualFold(string(*s.Kind), string(corev1.AzureManagedDisk))
}
