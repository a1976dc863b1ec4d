package unsupported

import (
	"reflect"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
)

// TestVolumes: the table warns about exactly the types of volumes that kubelets do not have.
func TestVolumes(t *testing.T) {
	types := reflect.TypeFor[corev1.VolumeSource]()
	for i := range types.NumField() {
		var v corev1.Volume
		reflect.ValueOf(&v.VolumeSource).Elem().Field(i).Set(reflect.New(types.Field(i).Type.Elem()))
		supported := false
		for _, p := range volumes.Builtin(volumes.Sources{}) {
			supported = supported || p.Supports(&v)
		}
		if supported == unmountable(v) {
			t.Errorf("%s: kubelets support it: %t, and the table warns: %t", types.Field(i).Name, supported, unmountable(v))
		}
	}
}
