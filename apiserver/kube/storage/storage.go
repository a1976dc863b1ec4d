// Package storage describes the kinds of the API group storage.k8s.io to an API server:
// how each is defaulted, validated, changed, shown in a table and selected.
//
//	config.Resources = append(config.Resources, storage.Resources()...)
//
// Nothing mounts the volumes of a CSI driver yet.
package storage

import "github.com/planekit/planekit/apiserver"

// Resources returns the kinds of the group. The slice belongs to the caller.
func Resources() []apiserver.Resource {
	return []apiserver.Resource{
		CSIDrivers(),
		CSINodes(),
		CSIStorageCapacities(),
		StorageClasses(),
		VolumeAttachments(),
	}
}
