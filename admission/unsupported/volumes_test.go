package unsupported

import (
	"reflect"
	"testing"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
)

// TestVolumes: the table warns about exactly the types of volumes that kubelets do not have.
func TestVolumes(t *testing.T) {
	types := reflect.TypeFor[corev1.VolumeSource]()
	for i := range types.NumField() {
		var v corev1.Volume
		reflect.ValueOf(&v.VolumeSource).Elem().Field(i).Set(reflect.New(types.Field(i).Type.Elem()))
		_, supported := volumeclaim.UseOf(&corev1.Pod{}, &v) // found through its claim
		for _, p := range volumes.Builtin(volumes.Sources{}) {
			supported = supported || p.Supports(&v)
		}
		if supported == unmountable(v) {
			t.Errorf("%s: kubelets support it: %t, and the table warns: %t", types.Field(i).Name, supported, unmountable(v))
		}
	}
}

// TestPersistentVolumes: the same of persistent volumes.
func TestPersistentVolumes(t *testing.T) {
	types := reflect.TypeFor[corev1.PersistentVolumeSource]()
	for i := range types.NumField() {
		v := &corev1.PersistentVolume{}
		reflect.ValueOf(&v.Spec.PersistentVolumeSource).Elem().Field(i).Set(reflect.New(types.Field(i).Type.Elem()))
		supported := false
		for _, p := range volumes.Builtin(volumes.Sources{}) {
			persists, ok := p.(volumes.PersistentPlugin)
			supported = supported || ok && persists.SupportsPersistent(v)
		}
		if supported == unmountablePersistent(v, nil) {
			t.Errorf("%s: kubelets support it: %t, and the table warns: %t", types.Field(i).Name, supported, !supported)
		}
	}
}
