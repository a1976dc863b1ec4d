package kube

import (
	"encoding/json"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func secrets() apiserver.Resource {
	doc := corev1.Secret{}.SwaggerDoc()
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "Secret",
		Plural:     "secrets",
		Namespaced: true,
		New:        func() runtime.Object { return &corev1.Secret{} },
		NewList:    func() runtime.Object { return &corev1.SecretList{} },
		Strategy: strategy[*corev1.Secret]{
			complete:       completeSecret,
			validate:       validateSecret,
			validateUpdate: validateSecretUpdate,
		}.erase(),
		Columns: []apiserver.Column{
			text("Type", doc["type"], func(s *corev1.Secret) string { return string(s.Type) }),
			countColumn("Data", doc["data"], func(s *corev1.Secret) int { return len(s.Data) }),
			age[*corev1.Secret](),
		},
		Fields: selectable[*corev1.Secret]{
			"type": func(s *corev1.Secret) string { return string(s.Type) },
		}.erase(),
	}
}

// completeSecret folds stringData, which only ever travels towards the server,
// into data.
func completeSecret(s *corev1.Secret) {
	setIfEmpty(&s.Type, corev1.SecretTypeOpaque)
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func validateSecret(s *corev1.Secret) field.ErrorList {
	var ps problems
	p := field.NewPath("data")
	size := 0
	for _, key := range sortedKeys(s.Data) {
		ps.each(p.Key(key), key, validation.IsConfigMapKey(key))
		size += len(s.Data[key])
	}
	ps.atMostBytes(p, size, corev1.MaxSecretSize)
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		ps.required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), s.Annotations[corev1.ServiceAccountNameKey])
	case corev1.SecretTypeDockercfg:
		checkSecretJSON(&ps, p.Key(corev1.DockerConfigKey), s.Data, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		checkSecretJSON(&ps, p.Key(corev1.DockerConfigJsonKey), s.Data, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		// Either may be missing, but not both.
		if !has(s.Data, corev1.BasicAuthUsernameKey) && !has(s.Data, corev1.BasicAuthPasswordKey) {
			ps.add(field.Required(p.Key(corev1.BasicAuthUsernameKey), ""))
			ps.add(field.Required(p.Key(corev1.BasicAuthPasswordKey), ""))
		}
	case corev1.SecretTypeSSHAuth:
		ps.present(len(s.Data[corev1.SSHAuthPrivateKey]) > 0, p.Key(corev1.SSHAuthPrivateKey), "")
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			ps.present(has(s.Data, key), p.Key(key), "")
		}
	}
	return ps.list
}

func has(data map[string][]byte, key string) bool {
	_, ok := data[key]
	return ok
}

// checkSecretJSON requires an object of JSON, and never shows it.
func checkSecretJSON(ps *problems, p *field.Path, data map[string][]byte, key string) {
	if !has(data, key) {
		ps.add(field.Required(p, ""))
		return
	}
	if err := json.Unmarshal(data[key], &map[string]any{}); err != nil {
		ps.add(field.Invalid(p, "<secret contents redacted>", err.Error()))
	}
}

func validateSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	var ps problems
	ps.immutable(field.NewPath("type"), s.Type, old.Type)
	if deref(old.Immutable) {
		frozen(&ps, deref(s.Immutable), []frozenField{{"data", differ(s.Data, old.Data)}})
	}
	ps.all(validateSecret(s))
	return ps.list
}
