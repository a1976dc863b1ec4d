package noderestriction_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/localcache"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newMirror is a pod as n1 may create it, and then changed.
func newMirror(change func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "m", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid-n1", Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "a", Value: "b"},
			{Name: "c", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}}}}},
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}},
				{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}}}}}}},
	}
	if change != nil {
		change(p)
	}
	return p
}

// TestMirror: what a node says of itself opens nothing to it.
func TestMirror(t *testing.T) {
	p := start(t, config())
	yes, no := true, false
	local := corev1.LocalObjectReference{Name: "x"}
	secret := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local}}}
	configMap := []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local}}}}
	owner := func(change func(*metav1.OwnerReference)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.OwnerReferences[0]) }
	}
	volume := func(v corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: v})
		}
	}
	source := func(s corev1.VolumeProjection) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{s}}})
	}
	const itself = `node "n1" can only create pods with an owner reference set to itself`
	const cannot = `node "n1" can not create pods that reference `
	for _, test := range []struct {
		name    string
		change  func(*corev1.Pod)
		refused string
	}{
		{"as it should be", nil, ""},
		{"not blocking", owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = &no }), ""},
		{"no mirror", func(p *corev1.Pod) { p.Annotations = nil }, `pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`},
		{"unbound", func(p *corev1.Pod) { p.Spec.NodeName = "" }, `node "n1" can only create pods with spec.nodeName set to itself`},
		{"bound elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, `node "n1" can only create pods with spec.nodeName set to itself`},
		{"no owner", func(p *corev1.Pod) { p.OwnerReferences = nil }, itself},
		{"two owners", func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) }, `node "n1" can only create pods with a single owner reference set to itself`},
		{"owner of another kind", owner(func(o *metav1.OwnerReference) { o.Kind = "Pod" }), itself},
		{"owner of another version", owner(func(o *metav1.OwnerReference) { o.APIVersion = "x/v1" }), itself},
		{"another owner", owner(func(o *metav1.OwnerReference) { o.Name = "n2" }), itself},
		{"no controller", owner(func(o *metav1.OwnerReference) { o.Controller = &no }), `node "n1" can only create pods with a controller owner reference set to itself`},
		{"blocking", owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = &yes }), `node "n1" must not set blockOwnerDeletion on an owner reference`},
		{"old UID", owner(func(o *metav1.OwnerReference) { o.UID = "x" }), "node n1 UID mismatch: expected x got uid-n1"},
		{"account", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "robot" }, cannot + "serviceaccounts"},
		{"pull secret", func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{local} }, cannot + "secrets"},
		{"envFrom", func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = secret }, cannot + "secrets"},
		{"envFrom of an init container", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{EnvFrom: secret}} }, cannot + "secrets"},
		{"env of an ephemeral container", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: configMap}}}
		}, cannot + "configmaps"},
		{"resource claims", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x"}} }, cannot + "resourceclaims"},
		{"secret", volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}), cannot + "secrets"},
		{"config map", volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local}}), cannot + "configmaps"},
		{"iscsi with secret", volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: &local}}), cannot + "secrets"},
		{"iscsi", volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}), ""},
		{"csi", volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), cannot + "csidrivers (via CSI volumes)"},
		{"glusterfs", volume(corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}}), cannot + "endpoints (via glusterFS volumes)"},
		{"claim", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}), cannot + "persistentvolumeclaims"},
		{"ephemeral", volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), cannot + "persistentvolumeclaims (via ephemeral volumes)"},
		{"projected secret", source(corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: local}}), cannot + "secrets"},
		{"projected config map", source(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local}}), cannot + "configmaps"},
		{"projected token", source(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}), cannot + "serviceaccounts (via projected volumes)"},
		{"projected bundle", source(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}), cannot + "clustertrustbundles"},
		{"projected certificate", source(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}), cannot + "podcertificates"},
		{"projected unknown", source(corev1.VolumeProjection{}), `error checking mirror pod for API references: unknown source for projected volume "v"`},
		{"unknown volume", volume(corev1.VolumeSource{}), `error checking mirror pod for API references: unknown volume type for volume`},
	} {
		check(t, p, test.name, request(admission.Create, "/pods", "m", newMirror(test.change), nil), test.refused)
	}
	c := config()
	c.Nodes = localcache.NewMap[*corev1.Node]()
	check(t, start(t, c), "unregistered", request(admission.Create, "/pods", "m", newMirror(nil), nil), `nodes "n1" not found`)
}

// TestTokens: tokens are for pods of the node, and for whom these want them.
func TestTokens(t *testing.T) {
	c := config()
	c.Authorizer = denying("extra")
	claim := func(name, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
	}
	c.Claims = localcache.NewMap(claim("disk", "pv"), claim("mine-e", "pv2"), claim("free", ""))
	volume := func(name, driver string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver}}}}
	}
	c.Volumes = localcache.NewMap(volume("pv", "d1"), volume("pv2", "d2"))
	wants := func(name, audience string) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: audience}}}}
	}
	c.Drivers = localcache.NewMap(wants("d1", "by-claim"), wants("d2", "by-template"), wants("d3", "inline"))
	mine := pod("mine", "n1")
	for name, source := range map[string]corev1.VolumeSource{
		"a": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}}}},
		"b": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}},
		"c": {CSI: &corev1.CSIVolumeSource{Driver: "d3"}},
		"d": {CSI: &corev1.CSIVolumeSource{Driver: "gone"}},
		"e": {Ephemeral: &corev1.EphemeralVolumeSource{}},
		"f": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "free"}},
		"g": {EmptyDir: &corev1.EmptyDirVolumeSource{}},
	} {
		mine.Spec.Volumes = append(mine.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	plain := pod("plain", "n1")
	c.Pods = localcache.NewMap(mine, plain, pod("other", "n2"))
	p := start(t, c)
	ask := func(ref *authenticationv1.BoundObjectReference, audiences ...string) *admission.Request {
		return request(admission.Create, "/serviceaccounts/token", "robot",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref, Audiences: audiences}}, nil)
	}
	to := func(name string) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID("uid-" + name)}
	}
	old, uidless, secret := to("mine"), to("mine"), to("mine")
	old.UID, uidless.UID, secret.Kind = "uid-before", "", "Secret"
	for _, audience := range []string{"vault", "by-claim", "by-template", "inline", "extra", ""} {
		check(t, p, "audience "+audience, ask(to("mine"), audience), "")
	}
	check(t, p, "no audience", ask(to("mine")), "")
	const unbound = "node requested token not bound to a pod"
	check(t, p, "unbound", ask(nil), unbound)
	check(t, p, "bound to a secret", ask(secret), unbound)
	check(t, p, "bound to a name", ask(uidless), "node requested token with a pod binding without a uid")
	check(t, p, "bound to an earlier pod", ask(old), "the UID in the bound object reference (uid-before) does not match the UID in record")
	check(t, p, "pod of another", ask(to("other")), "node requested token bound to a pod scheduled on a different node")
	check(t, p, "pod that is gone", ask(to("gone")), `pods "gone" not found`)
	check(t, p, "another audience", ask(to("mine"), "bank"), `audience "bank" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`)
	check(t, p, "broken", ask(to("mine"), "broken"), `audience "broken" not found in pod spec volume, error authorizing system:node:n1 to request tokens for this audience: broken`)
	check(t, p, "two audiences", ask(to("mine"), "vault", "inline"), "node may only request 0 or 1 audiences")
	check(t, p, "a pod without a token", ask(to("plain")), `audience "" not found`)
	another := ask(to("mine"))
	another.Name = "root"
	check(t, p, "another account", another, "node requested token for a service account that pod shop/mine does not run as")
	check(t, p, "what is no request", request(admission.Create, "/serviceaccounts/token", "robot", &corev1.Pod{}, nil), "unexpected type *v1.Pod")

	c.Authorizer, c.Drivers = nil, nil
	check(t, start(t, c), "nobody knows drivers", ask(to("mine"), "by-claim"), "is not authorized")
	c.Volumes = nil
	check(t, start(t, c), "nobody knows volumes", ask(to("mine"), "by-claim"), "is not authorized")
}

func TestCertificates(t *testing.T) {
	p := start(t, config())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	csr := func(name, signer string) *admission.Request {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return request(admission.Create, "certificates.k8s.io/certificatesigningrequests", "c", &certificatesv1.CertificateSigningRequest{
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}, nil)
	}
	for _, signer := range []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName} {
		check(t, p, "own", csr("system:node:n1", signer), "")
		check(t, p, "another", csr("system:node:n2", signer), "can only create a node CSR with CN=system:node:n1")
		garbage := csr("x", signer)
		garbage.Object.(*certificatesv1.CertificateSigningRequest).Spec.Request = []byte("x")
		check(t, p, "garbage", garbage, "unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
		garbage.Object.(*certificatesv1.CertificateSigningRequest).Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})
		check(t, p, "garbage in PEM", garbage, "unable to parse csr: ")
	}
	check(t, p, "another signer", csr("anything", "example.com/signer"), "")
	update := csr("system:node:n2", certificatesv1.KubeletServingSignerName)
	update.Operation = admission.Update
	check(t, p, "update", update, "")
}
