package podreference

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestFind goes through all places in which a pod can refer to an object.
func TestFind(t *testing.T) {
	volume := func(v corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: v}} }
	}
	project := func(p corev1.VolumeProjection) func(*corev1.PodSpec) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{p}}})
	}
	secretVariable := []corev1.EnvVar{{Name: "A"}, {Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}}}
	mapVariable := []corev1.EnvVar{{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}}}
	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"none":            {func(*corev1.PodSpec) {}, ""},
		"service account": {func(s *corev1.PodSpec) { s.ServiceAccountName = "a" }, "serviceaccounts"},
		"pull secret":     {func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{}} }, "secrets"},
		"resource claim":  {func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{}} }, "resourceclaims"},
		"init container": {func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}}}
		}, "secrets"},
		"container": {func(s *corev1.PodSpec) {
			s.Containers = []corev1.Container{{}, {EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}}}}}
		}, "configmaps"},
		"secret variable": {func(s *corev1.PodSpec) { s.Containers = []corev1.Container{{Env: secretVariable}} }, "secrets"},
		"ephemeral container": {func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: mapVariable}}}
		}, "configmaps"},
		"field variable": {func(s *corev1.PodSpec) {
			s.Containers = []corev1.Container{{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}}}}
		}, ""},
		"secret volume":         {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}), "secrets"},
		"config map volume":     {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), "configmaps"},
		"claim":                 {volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}), "persistentvolumeclaims"},
		"ephemeral volume":      {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), "persistentvolumeclaims (via ephemeral volumes)"},
		"CSI":                   {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), "csidrivers (via CSI volumes)"},
		"CSI with a secret":     {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{}}}), "secrets"},
		"host path":             {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), ""},
		"iSCSI with a secret":   {volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: &corev1.LocalObjectReference{}}}), "secrets"},
		"projected secret":      {project(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}}), "secrets"},
		"projected config map":  {project(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}), "configmaps"},
		"projected token":       {project(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}), "serviceaccounts (via projected volumes)"},
		"projected bundle":      {project(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}), "clustertrustbundles"},
		"projected certificate": {project(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}), "podcertificates"},
		"projected fields":      {project(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}), ""},
	} {
		pod := &corev1.Pod{}
		test.change(&pod.Spec)
		if got, err := Find(pod); got != test.want || err != nil {
			t.Errorf("%s: %q %v, want %q", name, got, err, test.want)
		}
	}
}

// TestEveryVolume: Find knows each type of volume and each projected source of the API.
func TestEveryVolume(t *testing.T) {
	sources := reflect.TypeFor[corev1.VolumeSource]()
	for i := range sources.NumField() {
		v := corev1.Volume{Name: "v"}
		reflect.ValueOf(&v.VolumeSource).Elem().Field(i).Set(reflect.New(sources.Field(i).Type.Elem()))
		if _, err := Find(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{v}}}); err != nil {
			t.Errorf("Find of a pod with a volume of %s: %v", sources.Field(i).Name, err)
		}
	}
	projections := reflect.TypeFor[corev1.VolumeProjection]()
	for i := range projections.NumField() {
		p := corev1.VolumeProjection{}
		reflect.ValueOf(&p).Elem().Field(i).Set(reflect.New(projections.Field(i).Type.Elem()))
		v := corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{p}}}}
		if _, err := Find(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{v}}}); err != nil {
			t.Errorf("projected %s: %v", projections.Field(i).Name, err)
		}
	}
	for _, v := range []corev1.Volume{{Name: "v"}, {Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: make([]corev1.VolumeProjection, 1)}}}} {
		if _, err := Find(&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{v}}}); err == nil {
			t.Errorf("%+v: no error", v)
		}
	}
}
