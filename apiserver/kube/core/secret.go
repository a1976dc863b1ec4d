package core

import (
	"encoding/json"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Secrets returns the resource of the kind Secret.
func Secrets() apiserver.Resource {
	doc := corev1.Secret{}.SwaggerDoc()
	return apiserver.For(kinds.Secrets, apiserver.Resource{
		Strategy: define.Strategy[*corev1.Secret]{
			Default:        completeSecret,
			Validate:       validateSecret,
			ValidateUpdate: validateSecretUpdate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Type", doc["type"], func(s *corev1.Secret) string { return string(s.Type) }),
			column.Count("Data", doc["data"], func(s *corev1.Secret) int { return len(s.Data) }),
			column.Age[*corev1.Secret](),
		},
		Fields: define.Fields[*corev1.Secret]{
			"type": func(s *corev1.Secret) string { return string(s.Type) },
		}.Erase(),
	})
}

// completeSecret folds stringData, which only ever travels towards the server,
// into data.
func completeSecret(s *corev1.Secret) {
	optional.SetIfEmpty(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func validateSecret(s *corev1.Secret) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("data")
	size := 0
	for _, key := range check.SortedKeys(s.Data) {
		ps.Each(p.Key(key), key, validation.IsConfigMapKey(key))
		size += len(s.Data[key])
	}
	ps.AtMostBytes(p, size, corev1.MaxSecretSize)
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		ps.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), s.Annotations[corev1.ServiceAccountNameKey])
	case corev1.SecretTypeDockercfg:
		checkSecretJSON(&ps, p.Key(corev1.DockerConfigKey), s.Data, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		checkSecretJSON(&ps, p.Key(corev1.DockerConfigJsonKey), s.Data, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		// Either may be missing, but not both.
		if !has(s.Data, corev1.BasicAuthUsernameKey) && !has(s.Data, corev1.BasicAuthPasswordKey) {
			ps.Add(field.Required(p.Key(corev1.BasicAuthUsernameKey), ""))
			ps.Add(field.Required(p.Key(corev1.BasicAuthPasswordKey), ""))
		}
	case corev1.SecretTypeSSHAuth:
		ps.Present(len(s.Data[corev1.SSHAuthPrivateKey]) > 0, p.Key(corev1.SSHAuthPrivateKey), "")
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			ps.Present(has(s.Data, key), p.Key(key), "")
		}
	}
	return ps.List
}

func has(data map[string][]byte, key string) bool {
	_, ok := data[key]
	return ok
}

// checkSecretJSON requires an object of JSON, and never shows it.
func checkSecretJSON(ps *check.Problems, p *field.Path, data map[string][]byte, key string) {
	if !has(data, key) {
		ps.Add(field.Required(p, ""))
		return
	}
	if err := json.Unmarshal(data[key], &map[string]any{}); err != nil {
		ps.Add(field.Invalid(p, "<secret contents redacted>", err.Error()))
	}
}

func validateSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	var ps check.Problems
	ps.Immutable(field.NewPath("type"), s.Type, old.Type)
	if optional.Deref(old.Immutable) {
		frozen(&ps, optional.Deref(s.Immutable), []frozenField{{"data", define.Differ(s.Data, old.Data)}})
	}
	ps.All(validateSecret(s))
	return ps.List
}
