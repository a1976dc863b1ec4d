package admission

import "fmt"

// ForbiddenError is a refusal worded as Kubernetes does it. The client gets it as
// 403.
type ForbiddenError struct {
	// Group and Resource name the resource, Name the object.
	Group, Resource, Name string
	// Err says why.
	Err error
}

// Error is such as `pods "web" is forbidden: ` and then why.
func (e *ForbiddenError) Error() string {
	resource := e.Resource
	if e.Group != "" {
		resource += "." + e.Group
	}
	return fmt.Sprintf("%s %q is forbidden: %v", resource, e.Name, e.Err)
}

// Unwrap returns why.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// Forbidden is the refusal of r because of err.
func Forbidden(r *Request, err error) *ForbiddenError {
	return &ForbiddenError{Group: r.Resource.Group, Resource: r.Resource.Resource, Name: r.Called(), Err: err}
}

// Called is what messages call the object: its name, else its generateName.
func (r *Request) Called() string {
	if r.Name != "" {
		return r.Name
	}
	if o, ok := r.Object.(interface {
		GetName() string
		GetGenerateName() string
	}); ok {
		if n := o.GetName(); n != "" {
			return n
		}
		if n := o.GetGenerateName(); n != "" {
			return n
		}
	}
	return "Unknown"
}
