package requestline

import (
	"net/url"
	"unicode/utf8"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/invalid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options reads the query parameters that an options type has, and checks
// those of a list or watch. Parameters which it does not have are ignored, as in
// Kubernetes.
func Options(query url.Values, into any) error {
	if err := ReadOptions(query, into); err != nil {
		return err
	}
	if !utf8.ValidString(query.Get("fieldManager")) {
		return wire.BadRequest("fieldManager is not valid UTF-8")
	}
	if o, ok := into.(*metav1.ListOptions); ok {
		return Invalid("ListOptions", checkRevision(o))
	}
	return nil
}

// ReadOptions reads the parameters and does not check what they mean together.
func ReadOptions(query url.Values, into any) error {
	var err error
	switch o := into.(type) {
	case *metav1.GetOptions:
		err = metav1.Convert_url_Values_To_v1_GetOptions(&query, o, nil)
	case *metav1.ListOptions:
		err = metav1.Convert_url_Values_To_v1_ListOptions(&query, o, nil)
	case *metav1.CreateOptions:
		err = metav1.Convert_url_Values_To_v1_CreateOptions(&query, o, nil)
	case *metav1.UpdateOptions:
		err = metav1.Convert_url_Values_To_v1_UpdateOptions(&query, o, nil)
	case *metav1.PatchOptions:
		err = metav1.Convert_url_Values_To_v1_PatchOptions(&query, o, nil)
	case *metav1.DeleteOptions:
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&query, o, nil)
	}
	if err != nil {
		return wire.BadRequest("%v", err)
	}
	return nil
}

// Invalid returns errs as one API error about the options, nil if there are none.
func Invalid(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return invalid.Object(schema.GroupKind{Group: "meta.k8s.io", Kind: kind}, "", errs)
}

const (
	exact    = metav1.ResourceVersionMatchExact
	notOlder = metav1.ResourceVersionMatchNotOlderThan
)

// A rule is one of those that the parameters of a list or watch must keep together.
type rule struct {
	broken bool
	err    *field.Error
}

// checkRevision checks which state a list or watch asks for. The rules and their messages are those
// of Kubernetes.
func checkRevision(o *metav1.ListOptions) (errs field.ErrorList) {
	rules := listRules
	if o.Watch {
		rules = watchRules
	}
	for _, r := range rules(o, field.NewPath("resourceVersionMatch")) {
		if r.broken {
			errs = append(errs, r.err)
		}
	}
	return errs
}

func listRules(o *metav1.ListOptions, at *field.Path) []rule {
	match := o.ResourceVersionMatch
	return []rule{
		{match != "" && o.ResourceVersion == "", field.Forbidden(at, "resourceVersionMatch is forbidden unless resourceVersion is provided")},
		{match != "" && o.Continue != "", field.Forbidden(at, "resourceVersionMatch is forbidden when continue is provided")},
		{match != "" && match != exact && match != notOlder, field.NotSupported(at, match, []string{string(exact), string(notOlder), ""})},
		{match == exact && o.ResourceVersion == "0", field.Forbidden(at, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`)},
		{o.SendInitialEvents != nil, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list")},
	}
}

func watchRules(o *metav1.ListOptions, at *field.Path) []rule {
	match, initial := o.ResourceVersionMatch, o.SendInitialEvents != nil
	if !initial && match == "" && (o.ResourceVersion == "" || o.ResourceVersion == "0") {
		// Such a watch begins with all objects, as if it had asked for them.
		match, initial = notOlder, true
	}
	return []rule{
		{initial && match != notOlder, field.Forbidden(at, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")},
		{match != "" && !initial, field.Forbidden(at, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")},
		{match != "" && match != notOlder, field.NotSupported(at, match, []string{string(notOlder)})},
		{match != "" && o.Continue != "", field.Forbidden(at, "resourceVersionMatch is forbidden when continue is provided")},
	}
}
