package fields

import (
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ruleOf maps the full name of a field to its rule.
var ruleOf = sync.OnceValue(func() map[protoreflect.FullName]*rule {
	all := map[protoreflect.FullName]*rule{}
	for _, rule := range rules() {
		for _, field := range rule.fields {
			all[apiPackage+protoreflect.FullName(field)] = &rule
		}
	}
	return all
})

// apiPackage is the prefix of the full names of CRI's messages.
const apiPackage = "runtime.v1."

// Check refuses a request that sets a field which no engine supports. The error is an errdefs.ErrNotImplemented and
// begins with the field's path. The services refuse a field whose support depends on the engine or on its value. Check
// ignores fields below a field that is not applicable. Check is safe for concurrent use.
func Check(request proto.Message) error {
	if request == nil {
		return nil
	}
	if path, why := find(request.ProtoReflect()); why != "" {
		return errdefs.ErrNotImplemented.WithMessage(path + ": " + why)
	}
	return nil
}

// find returns the path of a refused field that a message sets, and the reason. Both are empty if there is no such
// field.
func find(m protoreflect.Message) (path, why string) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch rule := ruleOf()[field.FullName()]; {
		case rule != nil && !rule.ignored:
			path, why = string(field.Name()), rule.why
		case rule == nil && field.Message() != nil && !field.IsMap():
			path, why = findIn(field, value)
		}
		return why == ""
	})
	return path, why
}

// findIn is find for the messages in a field's value.
func findIn(field protoreflect.FieldDescriptor, value protoreflect.Value) (path, why string) {
	if !field.IsList() {
		if path, why = find(value.Message()); why != "" {
			path = string(field.Name()) + "." + path
		}
		return path, why
	}
	for i := range value.List().Len() {
		if path, why = find(value.List().Get(i).Message()); why != "" {
			return fmt.Sprintf("%s[%d].%s", field.Name(), i, path), why
		}
	}
	return "", ""
}
