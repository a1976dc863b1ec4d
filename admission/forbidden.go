package admission

import "fmt"

// ForbiddenError is a refusal with Kubernetes' wording. The client gets it as 403.
type ForbiddenError struct {
	// Group and Resource name the resource, Name the object.
	Group, Resource, Name string
	// Err is the reason.
	Err error
}

// Error returns the reason after a prefix such as `pods "web" is forbidden: `.
func (e *ForbiddenError) Error() string {
	resource := e.Resource
	if e.Group != "" {
		resource += "." + e.Group
	}
	return fmt.Sprintf("%s %q is forbidden: %v", resource, e.Name, e.Err)
}

// Unwrap returns the reason.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// Forbidden returns the refusal of r for the reason err.
func Forbidden(r *Request, err error) *ForbiddenError {
	return &ForbiddenError{Group: r.Resource.Group, Resource: r.Resource.Resource, Name: r.Called(), Err: err}
}

// Called returns the name of the object for messages: its name, or else its generateName.
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
