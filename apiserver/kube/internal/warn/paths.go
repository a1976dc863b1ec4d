package warn

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// source is a file of a volume, and what it is from; empty if the volume has one source.
type source struct{ path, from string }

func (s source) String() string {
	if s.from == "" {
		return fmt.Sprintf("%q", s.path)
	}
	return fmt.Sprintf("%q (%s)", s.path, s.from)
}

// maxPaths bounds the comparisons of a volume's paths: only the first are compared with the rest.
const maxPaths = 1000

// volumePaths warns of files of a volume that hide one another.
func (w *podWarner) volumePaths() {
	for i := range w.spec.Volumes {
		v := &w.spec.Volumes[i]
		if c := v.ConfigMap; c != nil {
			w.overlaps(v.Name, fmt.Sprintf("ConfigMap %q", c.Name), filesOf(c.Items, keyPath, ""))
		}
		if s := v.Secret; s != nil {
			w.overlaps(v.Name, fmt.Sprintf("Secret %q", s.SecretName), filesOf(s.Items, keyPath, ""))
		}
		if d := v.DownwardAPI; d != nil {
			w.overlaps(v.Name, "DownwardAPI", filesOf(d.Items, fieldPath, ""))
		}
		if v.Projected == nil {
			continue
		}
		var files []source
		for j := range v.Projected.Sources {
			p := &v.Projected.Sources[j]
			if *p == (corev1.VolumeProjection{}) {
				w.say(fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
			files = append(files, filesOfProjection(p)...)
		}
		w.overlaps(v.Name, "Projected", files)
	}
}

func keyPath(k corev1.KeyToPath) string               { return k.Path }
func fieldPath(f corev1.DownwardAPIVolumeFile) string { return f.Path }

func filesOf[T any](items []T, path func(T) string, from string) []source {
	files := make([]source, len(items))
	for i := range items {
		files[i] = source{path(items[i]), from}
	}
	return files
}

func filesOfProjection(p *corev1.VolumeProjection) (files []source) {
	switch {
	case p.ConfigMap != nil && p.ConfigMap.Items != nil:
		return filesOf(p.ConfigMap.Items, keyPath, fmt.Sprintf("ConfigMap %q", p.ConfigMap.Name))
	case p.Secret != nil && p.Secret.Items != nil:
		return filesOf(p.Secret.Items, keyPath, fmt.Sprintf("Secret %q", p.Secret.Name))
	case p.DownwardAPI != nil && p.DownwardAPI.Items != nil:
		return filesOf(p.DownwardAPI.Items, fieldPath, "DownwardAPI")
	case p.ServiceAccountToken != nil:
		return []source{{p.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case p.ClusterTrustBundle != nil:
		name := p.ClusterTrustBundle.Name
		if name == nil {
			name = p.ClusterTrustBundle.SignerName
		}
		if name == nil {
			return nil
		}
		return []source{{p.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", *name)}}
	case p.PodCertificate != nil:
		for _, file := range []source{
			{p.PodCertificate.CertificateChainPath, "PodCertificate chain"}, {p.PodCertificate.KeyPath, "PodCertificate key"},
			{p.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		} {
			if file.path != "" {
				files = append(files, file)
			}
		}
	}
	return files
}

// overlaps warns of each two files of which one is the other, or is in it.
func (w *podWarner) overlaps(volume, kind string, files []source) {
	var earlier []source
	for _, f := range files {
		f.path = strings.TrimRight(f.path, "/")
		if f.path == "" {
			continue
		}
		for _, e := range earlier {
			if strings.HasPrefix(e.path+"/", f.path+"/") || strings.HasPrefix(f.path+"/", e.path+"/") {
				w.say(fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", volume, kind, f, e))
			}
			if len(w.warnings) >= maxWarnings {
				return
			}
		}
		if len(earlier) < maxPaths {
			earlier = append(earlier, f)
		}
	}
}
