package kubecel

import (
	"net/url"
	"regexp"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	names "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

// format is a named format of strings. Its cost is approximately the length of a regular expression
// for it. The figures are kube-apiserver's.
type format struct {
	name   string
	errors func(string) []string // returns the errors in a text
	cost   int
}

var (
	uuidForm     = regexp.MustCompile(`^[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}$`)
	base64Form   = regexp.MustCompile(`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$`)
	dateTimeForm = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(.\d+)?([Zz]|[+-]\d{2}:\d{2})$`)
)

// formats holds all formats by name.
var formats = map[string]format{
	"dns1123Label":           {"DNS1123Label", whole(names.NameIsDNSLabel), 30},
	"dns1123Subdomain":       {"DNS1123Subdomain", whole(names.NameIsDNSSubdomain), 60},
	"dns1035Label":           {"DNS1035Label", whole(names.NameIsDNS1035Label), 30},
	"dns1123LabelPrefix":     {"DNS1123LabelPrefix", prefix(names.NameIsDNSLabel), 30},
	"dns1123SubdomainPrefix": {"DNS1123SubdomainPrefix", prefix(names.NameIsDNSSubdomain), 60},
	"dns1035LabelPrefix":     {"DNS1035LabelPrefix", prefix(names.NameIsDNS1035Label), 30},
	"qualifiedName":          {"QualifiedName", validation.IsQualifiedName, 60},
	"labelValue":             {"LabelValue", validation.IsValidLabelValue, 40},
	"uri": {"URI", func(s string) []string {
		if _, err := url.ParseRequestURI(s); err != nil {
			return []string{err.Error()}
		}
		return nil
	}, 1103},
	"uuid":     {"uuid", unless(uuidForm.MatchString, "does not match the UUID format"), 70},
	"byte":     {"byte", unless(base64Form.MatchString, "invalid base64"), 84},
	"date":     {"date", unless(isDate, "invalid date"), 71},
	"datetime": {"datetime", unless(isDateTime, "invalid datetime"), 71},
}

func whole(check func(string, bool) []string) func(string) []string {
	return func(s string) []string { return check(s, false) }
}

func prefix(check func(string, bool) []string) func(string) []string {
	return func(s string) []string { return check(s, true) }
}

func unless(right func(string) bool, otherwise string) func(string) []string {
	return func(s string) []string {
		if right(s) {
			return nil
		}
		return []string{otherwise}
	}
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func isDateTime(s string) bool {
	parts := dateTimeForm.FindStringSubmatch(s)
	return parts != nil && isDate(parts[1])
}

var formatKind = reading[format]{of: cel.OpaqueType("kubernetes.NamedFormat"), same: func(a, b format) bool { return a.name == b.name }}

// formatting returns Kubernetes' library for formats.
func formatting() []cel.EnvOption {
	options := []cel.EnvOption{
		cel.Function("format.named", cel.Overload("format-named", []*cel.Type{cel.StringType}, cel.OptionalType(formatKind.of), unary(func(name string) ref.Val {
			f, ok := formats[name]
			if !ok {
				return types.OptionalNone
			}
			return types.OptionalOf(formatKind.value(f))
		}))),
		cel.Function("validate", cel.MemberOverload("format-validate", []*cel.Type{formatKind.of, cel.StringType}, cel.OptionalType(cel.ListType(cel.StringType)),
			binary(func(f format, s string) ref.Val {
				wrong := f.errors(s)
				if len(wrong) == 0 {
					return types.OptionalNone
				}
				return types.OptionalOf(types.NewStringList(types.DefaultTypeAdapter, wrong))
			}))),
	}
	for name, f := range formats {
		options = append(options, cel.Function("format."+name, cel.Overload("format-"+name, nil, formatKind.of,
			cel.FunctionBinding(func(...ref.Val) ref.Val { return formatKind.value(f) }))))
	}
	return options
}
