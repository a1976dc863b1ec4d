package crd

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checker validates definitions. Its paths are those of kube-apiserver, which has what all versions have in
// common in one place.
type checker struct{ rules RuleCompiler }

// The values that some fields can have.
var (
	columnTypes   = []string{"boolean", "date", "integer", "number", "string"}
	columnFormats = []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
	schemaTypes   = []string{"array", "boolean", "integer", "number", "object", "string"}
)

const maxSelectable = 8

func joined(problems []string) string { return strings.Join(problems, ",") }

func (c checker) validateSpec(ctx context.Context, s *apiextensions.CustomResourceDefinitionSpec, old *definition) field.ErrorList {
	path := field.NewPath("spec")
	var all field.ErrorList
	if s.Group == "" {
		all = append(all, field.Required(path.Child("group"), ""))
	} else if errs := validation.IsDNS1123Subdomain(s.Group); len(errs) > 0 {
		all = append(all, field.Invalid(path.Child("group"), s.Group, joined(errs)))
	} else if !strings.Contains(s.Group, ".") {
		all = append(all, field.Invalid(path.Child("group"), s.Group, "should be a domain with at least one dot"))
	}
	switch s.Scope {
	case apiextensions.ClusterScoped, apiextensions.NamespaceScoped:
	case "":
		all = append(all, field.Required(path.Child("scope"), ""))
	default:
		all = append(all, field.NotSupported(path.Child("scope"), s.Scope, []string{apiextensions.ClusterScoped, apiextensions.NamespaceScoped}))
	}
	all = append(all, c.validateVersions(ctx, s, old, path)...)
	names := path.Child("names")
	for _, name := range []struct{ field, value string }{
		{"plural", s.Names.Plural}, {"singular", s.Names.Singular}, {"kind", s.Names.Kind}, {"listKind", s.Names.ListKind},
	} {
		if name.value == "" {
			all = append(all, field.Required(names.Child(name.field), ""))
		}
	}
	all = append(all, validateNames(&s.Names, names)...)
	if s.PreserveUnknownFields && (old == nil || !old.Spec.PreserveUnknownFields) {
		all = append(all, field.Invalid(path.Child("preserveUnknownFields"), true, "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return append(all, validateConversion(s, old, path.Child("conversion"))...)
}

// common reports which parts are the same in all versions.
type common struct{ schema, subresources, columns, selectable bool }

func commonOf(versions []apiextensions.CustomResourceDefinitionVersion) common {
	c := common{true, true, true, true}
	for i := range versions {
		v, first := &versions[i], &versions[0]
		c.schema = c.schema && equality.Semantic.DeepEqual(v.Schema, first.Schema)
		c.subresources = c.subresources && equality.Semantic.DeepEqual(v.Subresources, first.Subresources)
		c.columns = c.columns && equality.Semantic.DeepEqual(v.AdditionalPrinterColumns, first.AdditionalPrinterColumns)
		c.selectable = c.selectable && equality.Semantic.DeepEqual(v.SelectableFields, first.SelectableFields)
	}
	return c
}

func (c checker) validateVersions(ctx context.Context, s *apiextensions.CustomResourceDefinitionSpec, old *definition, path *field.Path) field.ErrorList {
	var all field.ErrorList
	same := commonOf(s.Versions)
	seen, twice, stored := map[string]bool{}, false, 0
	for i := range s.Versions {
		v := &s.Versions[i]
		at := path.Child("versions").Index(i)
		twice = twice || seen[v.Name]
		seen[v.Name] = true
		if v.Storage {
			stored++
		}
		if errs := validation.IsDNS1035Label(v.Name); len(errs) > 0 {
			all = append(all, field.Invalid(at.Child("name"), v.Name, joined(errs)))
			if i == 0 && v.Name != "" { // the deprecated field has the name of the first one
				all = append(all, field.Invalid(path.Child("version"), v.Name, joined(errs)))
			}
		}
		all = append(all, validateDeprecation(v, at)...)
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			all = append(all, field.Required(at.Child("schema").Child("openAPIV3Schema"), ""))
		}
		place := func(is bool, common, own string) *field.Path {
			if is {
				return path.Child(common)
			}
			return at.Child(own)
		}
		if v.Schema != nil && (i == 0 || !same.schema) {
			all = append(all, c.validateSchema(ctx, v, formerVersion(old, v.Name), place(same.schema, "validation", "schema"))...)
		}
		if i == 0 || !same.subresources {
			all = append(all, validateSubresources(v.Subresources, place(same.subresources, "subresources", "subresources"))...)
		}
		if i == 0 || !same.columns {
			for j := range v.AdditionalPrinterColumns {
				all = append(all, validateColumn(&v.AdditionalPrinterColumns[j], place(same.columns, "additionalPrinterColumns", "additionalPrinterColumns").Index(j))...)
			}
		}
		if i == 0 || !same.selectable {
			all = append(all, validateSelectable(v, formerVersion(old, v.Name), same.selectable, place(same.selectable, "selectableFields", "selectableFields"))...)
		}
	}
	if twice {
		all = append(all, field.Invalid(path.Child("versions"), s.Versions, "must contain unique version names"))
	}
	if stored != 1 {
		all = append(all, field.Invalid(path.Child("versions"), s.Versions, "must have exactly one version marked as storage version"))
	}
	return all
}

// formerVersion returns the version of that name in old; nil if there was none.
func formerVersion(old *definition, name string) *apiextensions.CustomResourceDefinitionVersion {
	if old == nil {
		return nil
	}
	i := slices.IndexFunc(old.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &old.Spec.Versions[i]
}

func validateDeprecation(v *apiextensions.CustomResourceDefinitionVersion, path *field.Path) field.ErrorList {
	text := v.DeprecationWarning
	if text == nil {
		return nil
	}
	at := path.Child("deprecationWarning")
	var all field.ErrorList
	add := func(format string, arguments ...any) {
		all = append(all, field.Invalid(at, *text, fmt.Sprintf(format, arguments...)))
	}
	if !v.Deprecated {
		add("can only be set for deprecated versions")
		return all
	}
	if len(*text) > 256 {
		add("must be <= 256 characters long")
	}
	if *text == "" {
		add("must not be an empty string")
	}
	for i, r := range *text {
		if !unicode.IsPrint(r) {
			add("must only contain printable UTF-8 characters; non-printable character found at index %d", i)
			break
		}
	}
	if !utf8.ValidString(*text) {
		add("must only contain printable UTF-8 characters")
	}
	return all
}

func validateNames(n *apiextensions.CustomResourceDefinitionNames, path *field.Path) field.ErrorList {
	var all field.ErrorList
	label := func(at *field.Path, value, check, prefix string) {
		if errs := validation.IsDNS1035Label(check); value != "" && len(errs) > 0 {
			all = append(all, field.Invalid(at, value, prefix+joined(errs)))
		}
	}
	const mixed = "may have mixed case, but should otherwise match: "
	label(path.Child("plural"), n.Plural, n.Plural, "")
	label(path.Child("singular"), n.Singular, n.Singular, "")
	label(path.Child("kind"), n.Kind, strings.ToLower(n.Kind), mixed)
	label(path.Child("listKind"), n.ListKind, strings.ToLower(n.ListKind), mixed)
	list := func(name string, values []string) {
		for i, value := range values {
			if errs := validation.IsDNS1035Label(value); len(errs) > 0 {
				all = append(all, field.Invalid(path.Child(name).Index(i), value, joined(errs)))
			}
		}
	}
	list("shortNames", n.ShortNames)
	if n.Kind != "" && n.Kind == n.ListKind {
		all = append(all, field.Invalid(path.Child("listKind"), n.ListKind, "kind and listKind may not be the same"))
	}
	list("categories", n.Categories)
	return all
}

func validateColumn(c *apiextensions.CustomResourceColumnDefinition, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if c.Name == "" {
		all = append(all, field.Required(path.Child("name"), ""))
	}
	types := "must be one of " + joined(columnTypes)
	if c.Type == "" {
		all = append(all, field.Required(path.Child("type"), types))
	} else if !slices.Contains(columnTypes, c.Type) {
		all = append(all, field.Invalid(path.Child("type"), c.Type, types))
	}
	if c.Format != "" && !slices.Contains(columnFormats, c.Format) {
		all = append(all, field.Invalid(path.Child("format"), c.Format, "must be one of "+joined(columnFormats)))
	}
	if c.JSONPath == "" {
		return append(all, field.Required(path.Child("JSONPath"), ""))
	}
	return append(all, simplePath(c.JSONPath, path.Child("JSONPath"))...)
}

func simplePath(text string, at *field.Path) field.ErrorList {
	if text[0] != '.' {
		return field.ErrorList{field.Invalid(at, text, "must be a simple json path starting with .")}
	}
	return nil
}

func validateSubresources(s *apiextensions.CustomResourceSubresources, path *field.Path) field.ErrorList {
	if s == nil || s.Scale == nil {
		return nil
	}
	var all field.ErrorList
	check := func(name, text, below string) {
		at := path.Child("scale." + name)
		if text == "" {
			all = append(all, field.Required(at, ""))
		} else if errs := simplePath(text, at); len(errs) > 0 {
			all = append(all, errs...)
		} else if !strings.HasPrefix(text, below) {
			all = append(all, field.Invalid(at, text, "should be a json path under "+strings.TrimSuffix(below, ".")))
		}
	}
	check("specReplicasPath", s.Scale.SpecReplicasPath, ".spec.")
	check("statusReplicasPath", s.Scale.StatusReplicasPath, ".status.")
	if p := s.Scale.LabelSelectorPath; p != nil && *p != "" {
		at := path.Child("scale.labelSelectorPath")
		if errs := simplePath(*p, at); len(errs) > 0 {
			all = append(all, errs...)
		} else if !strings.HasPrefix(*p, ".spec.") && !strings.HasPrefix(*p, ".status.") {
			all = append(all, field.Invalid(at, *p, "should be a json path under either .spec or .status"))
		}
	}
	return all
}

// validateSelectable checks the selectable fields of v, which may be the same in all versions.
func validateSelectable(v, old *apiextensions.CustomResourceDefinitionVersion, inAll bool, path *field.Path) field.ErrorList {
	if len(v.SelectableFields) == 0 {
		return nil
	}
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		detail := "may only be set when `version.schema.openAPIV3Schema` is not included"
		if inAll {
			detail = "may only be set when validations.schema is included"
		}
		return field.ErrorList{field.Invalid(path, "", detail)}
	}
	var all field.ErrorList
	seen := map[string]bool{}
	for i, f := range v.SelectableFields {
		at := path.Index(i).Child("jsonPath")
		if f.JSONPath == "" {
			all = append(all, field.Required(at, ""))
			continue
		}
		found, err := fieldAt(v.Schema.OpenAPIV3Schema, f.JSONPath)
		if err != nil {
			all = append(all, field.Invalid(at, f.JSONPath, fmt.Sprintf("is an invalid path: %v", err)))
			continue
		}
		if fieldsOf(f.JSONPath)[0] == "metadata" {
			all = append(all, field.Invalid(at, f.JSONPath, "must not point to fields in metadata"))
		}
		if !slices.Contains([]string{"string", "boolean", "integer"}, found.Type) {
			all = append(all, field.Invalid(at, f.JSONPath, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."))
		}
		if seen[f.JSONPath] {
			all = append(all, field.Duplicate(at, f.JSONPath))
		}
		seen[f.JSONPath] = true
	}
	if len(seen) > maxSelectable && (old == nil || !equality.Semantic.DeepEqual(old.SelectableFields, v.SelectableFields)) {
		all = append(all, field.TooMany(path, len(seen), maxSelectable))
	}
	return all
}

// fieldAt returns the schema of the field at a path of names.
func fieldAt(s *props, path string) (*props, error) {
	if path[0] != '.' {
		return nil, fmt.Errorf("expected [ or . but got: %s", path)
	}
	for _, name := range fieldsOf(path) {
		switch {
		case strings.Contains(name, "["):
			return nil, fmt.Errorf("array notation is not allowed")
		case name == "":
			return nil, fmt.Errorf("unexpected end of JSON path")
		case len(s.Properties) > 0:
			p, ok := s.Properties[name]
			if !ok {
				return nil, fmt.Errorf("does not refer to a valid field")
			}
			s = &p
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			s = s.AdditionalProperties.Schema
		default:
			return nil, fmt.Errorf("does not refer to a valid field")
		}
	}
	return s, nil
}

func validateConversion(s *apiextensions.CustomResourceDefinitionSpec, old *definition, path *field.Path) field.ErrorList {
	c := s.Conversion
	if c == nil {
		return nil
	}
	var all field.ErrorList
	if c.Strategy != apiextensions.NoneConverter && s.PreserveUnknownFields {
		all = append(all, field.Invalid(path.Child("strategy"), c.Strategy, "must be None if spec.preserveUnknownFields is true"))
	}
	switch c.Strategy {
	case "":
		all = append(all, field.Required(path.Child("strategy"), ""))
	case apiextensions.NoneConverter:
	case apiextensions.WebhookConverter:
		return append(all, validateWebhook(c, old, path)...)
	default:
		all = append(all, field.NotSupported(path.Child("strategy"), c.Strategy, []string{apiextensions.NoneConverter, apiextensions.WebhookConverter}))
	}
	if c.Webhook != nil && c.Webhook.ClientConfig != nil {
		all = append(all, field.Forbidden(path.Child("webhookClientConfig"), "should not be set when strategy is not set to Webhook"))
	}
	if c.Webhook != nil && len(c.Webhook.ConversionReviewVersions) > 0 {
		all = append(all, field.Forbidden(path.Child("conversionReviewVersions"), "should not be set when strategy is not set to Webhook"))
	}
	return all
}

// validateStatus checks the versions in which objects are stored, and the approval of protected groups.
func validateStatus(d, old *definition) field.ErrorList {
	status := field.NewPath("status")
	all := validateNames(&d.Status.AcceptedNames, status.Child("acceptedNames"))
	stored := status.Child("storedVersions")
	if len(d.Status.StoredVersions) == 0 {
		all = append(all, field.Invalid(stored, d.Status.StoredVersions, "must have at least one stored version"))
	}
	missing := map[string]int{}
	for i, name := range d.Status.StoredVersions {
		missing[name] = i
	}
	for _, v := range d.Spec.Versions {
		_, ok := missing[v.Name]
		if v.Storage && len(d.Status.StoredVersions) > 0 && !ok {
			all = append(all, field.Invalid(stored, d.Status.StoredVersions, "must have the storage version "+v.Name))
		}
		delete(missing, v.Name)
	}
	for i, name := range d.Status.StoredVersions {
		if last, ok := missing[name]; !ok || last != i {
			continue
		}
		all = append(all, field.Invalid(stored.Index(i), name, fmt.Sprintf("missing from spec.versions; %[1]s was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in %[1]s and removes %[1]s from status.storedVersions", name)))
	}
	return append(all, validateApproval(d, old)...)
}

// protected reports whether a group belongs to the Kubernetes community.
func protected(group string) bool {
	return group == "k8s.io" || group == "kubernetes.io" || strings.HasSuffix(group, ".k8s.io") || strings.HasSuffix(group, ".kubernetes.io")
}

// approval returns the state of the approval of a protected group, as the reason of a condition, and details.
func approval(d *definition) (reason, detail string) {
	text := d.Annotations[apiextensions.ApprovedAnnotation]
	const more = "see https://github.com/kubernetes/enhancements/pull/1111"
	u, err := url.ParseRequestURI(text)
	switch {
	case text == "":
		return "MissingAnnotation", fmt.Sprintf("protected groups must have approval annotation %q, %s", apiextensions.ApprovedAnnotation, more)
	case strings.HasPrefix(text, "unapproved"):
		return "UnapprovedAnnotation", fmt.Sprintf("not approved: %q", text)
	case err == nil && u.Host != "" && u.Scheme != "":
		return "ApprovedAnnotation", "approved in " + text
	}
	return "InvalidAnnotation", fmt.Sprintf("protected groups must have approval annotation %q with either a URL or a reason starting with \"unapproved\", %s", apiextensions.ApprovedAnnotation, more)
}

func validateApproval(d, old *definition) field.ErrorList {
	if !protected(d.Spec.Group) {
		return nil
	}
	reason, detail := approval(d)
	if old != nil {
		if before, _ := approval(old); before == reason {
			return nil
		}
	}
	at := field.NewPath("metadata", "annotations").Key(apiextensions.ApprovedAnnotation)
	switch reason {
	case "MissingAnnotation":
		return field.ErrorList{field.Required(at, detail)}
	case "InvalidAnnotation":
		return field.ErrorList{field.Invalid(at, d.Annotations[apiextensions.ApprovedAnnotation], detail)}
	}
	return nil
}
