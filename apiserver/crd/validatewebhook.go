package crd

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/planekit/planekit/internal/hookclient"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// reviewVersions are the versions of conversion reviews that webhooks are asked in.
var reviewVersions = []string{"v1", "v1beta1"}

// validateWebhook checks how objects are converted by a webhook. old is the former definition, nil if there is none.
func validateWebhook(c *apiextensions.CustomResourceConversion, old *definition, path *field.Path) field.ErrorList {
	var config *apiextensions.WebhookClientConfig
	var versions []string
	if c.Webhook != nil {
		config, versions = c.Webhook.ClientConfig, c.Webhook.ConversionReviewVersions
	}
	all := validateClientConfig(config, old, path.Child("webhookClientConfig"))
	return append(all, validateReviewVersions(versions, old, path.Child("conversionReviewVersions"))...)
}

func validateClientConfig(c *apiextensions.WebhookClientConfig, old *definition, path *field.Path) field.ErrorList {
	if c == nil {
		return field.ErrorList{field.Required(path, "required when strategy is set to Webhook")}
	}
	var all field.ErrorList
	switch {
	case (c.URL == nil) == (c.Service == nil):
		all = append(all, field.Required(path, "exactly one of url or service is required"))
	case c.URL != nil:
		all = append(all, validateWebhookURL(*c.URL, path.Child("url"))...)
	default:
		all = append(all, validateWebhookService(c.Service, path.Child("service"))...)
	}
	// A definition that is not established may be completed later.
	if old != nil && isTrue(old, apiextensions.Established) && !badBundle(old) && len(c.CABundle) > 0 {
		if _, err := hookclient.Roots(c.CABundle); err != nil {
			all = append(all, field.Invalid(path.Child("caBundle"), c.CABundle, err.Error()))
		}
	}
	return all
}

// badBundle reports whether the webhook of d has a caBundle that cannot be read.
func badBundle(d *definition) bool {
	c := webhookOf(d)
	if c == nil || c.ClientConfig == nil || len(c.ClientConfig.CABundle) == 0 {
		return false
	}
	_, err := hookclient.Roots(c.ClientConfig.CABundle)
	return err != nil
}

// webhookOf returns the webhook of d, nil if it has none.
func webhookOf(d *definition) *apiextensions.WebhookConversion {
	if d.Spec.Conversion == nil {
		return nil
	}
	return d.Spec.Conversion.Webhook
}

func validateWebhookURL(text string, path *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL: "+err.Error()+form)}
	}
	var all field.ErrorList
	if u.Scheme != "https" {
		all = append(all, field.Invalid(path, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		all = append(all, field.Invalid(path, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		all = append(all, field.Invalid(path, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		all = append(all, field.Invalid(path, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		all = append(all, field.Invalid(path, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return all
}

func validateWebhookService(s *apiextensions.ServiceReference, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if s.Name == "" {
		all = append(all, field.Required(path.Child("name"), ""))
	}
	if s.Namespace == "" {
		all = append(all, field.Required(path.Child("namespace"), ""))
	}
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	if errs := validation.IsValidPortNum(int(port)); errs != nil {
		all = append(all, field.Invalid(path.Child("port"), port, "port is not valid: "+strings.Join(errs, ", ")))
	}
	if s.Path == nil || *s.Path == "" || *s.Path == "/" {
		return all
	}
	return append(all, validateWebhookPath(*s.Path, path.Child("path"))...)
}

func validateWebhookPath(text string, path *field.Path) field.ErrorList {
	if text == "//" {
		return field.ErrorList{field.Invalid(path, text, "segment[0] may not be empty")}
	}
	var all field.ErrorList
	if !strings.HasPrefix(text, "/") {
		all = append(all, field.Invalid(path, text, "must start with a '/'"))
	}
	// The first character is left out, whatever it is, as in kube-apiserver.
	for i, step := range strings.Split(strings.TrimSuffix(text[1:], "/"), "/") {
		if step == "" {
			all = append(all, field.Invalid(path, text, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, problem := range validation.IsDNS1123Subdomain(step) {
			all = append(all, field.Invalid(path, text, fmt.Sprintf("segment[%d]: %v", i, problem)))
		}
	}
	return all
}

func validateReviewVersions(versions []string, old *definition, path *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var all field.ErrorList
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			all = append(all, field.Invalid(path.Index(i), v, "duplicate version"))
			continue
		}
		for _, problem := range validation.IsDNS1035Label(v) {
			all = append(all, field.Invalid(path.Index(i), v, problem))
		}
	}
	if knowsReview(versions) {
		return all
	}
	// A definition that knows none may stay as it is.
	if old != nil {
		if was := webhookOf(old); was != nil && len(was.ConversionReviewVersions) > 0 && !knowsReview(was.ConversionReviewVersions) {
			return all
		}
	}
	return append(all, field.Invalid(path, versions, "must include at least one of "+strings.Join(reviewVersions, ", ")))
}

// knowsReview reports whether versions has a version of conversion reviews that webhooks are asked in.
func knowsReview(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviewVersions, v) })
}
