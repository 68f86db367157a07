package fields

import (
	"slices"
	"strings"
)

// row describes fields with the same treatment. The table of rows is the source of docs/fields.md, of the refusals and
// of the list of tests on a real engine.
type row struct {
	// fields are named Message.field.
	fields []string
	// is and file are set by table. file is the file with the row.
	is   verdict
	file string
	// says describes the effect of the fields in criadapter, or why they have none.
	says string
	// refuses says which use of an implemented field is refused with codes.Unimplemented, and why. It may be empty.
	refuses string
	// uses are examples of the refused use, at least one for each field.
	uses []use
	// pods and containers are configurations that are refused because of one of the fields.
	pods, containers []refusal
	// by is the package that implements the fields, if docker/translate does not.
	by string
	// seen names the tests on a real engine that look at the fields, as DIRECTORY.TestName or DIRECTORY.TestName/part.
	seen []string
	// unseen lists the fields without such a test, with the reason and the evidence used instead.
	unseen string
}

// verdict is the treatment of a field.
type verdict string

const (
	implemented   verdict = "implemented"
	refused       verdict = "refused"
	notApplicable verdict = "not applicable"
)

// leads is the value of says in rows whose fields only hold other fields.
const leads = "Nested fields have rows of their own."

// Tests that look at several fields.
const (
	kindsTest  = "docker/translate.TestEveryKindStarts"
	podFields  = "test/e2e.TestFieldsOfPods"
	appFields  = "test/e2e.TestFieldsOfContainers"
	usersTest  = "sandbox.TestPodWithAUserNamespace/held by the kernel"
	openFields = appFields + "/nothing confines it"
	noteFields = "test/e2e.TestFieldsOfNotes"
)

// groups returns the rows of each file, in the order of docs/fields.md.
func groups() []group {
	return []group{
		{"rows_pod_test.go", podRows()},
		{"rows_container_test.go", slices.Concat(containerRows(), mountRows())},
		{"rows_security_test.go", securityRows()},
		{"rows_resources_test.go", resourceRows()},
		{"rows_image_test.go", imageRows()},
		{"rows_requests_test.go", slices.Concat(requestRows(), checkpointRows())},
	}
}

// group is the rows of a file.
type group struct {
	file string
	rows []row
}

// table returns all rows: the implemented fields, and then the fields in refused.go.
func table() []row {
	var all []row
	for _, group := range groups() {
		for _, row := range group.rows {
			row.is, row.file = implemented, "server/fields/"+group.file
			all = append(all, row)
		}
	}
	for _, rule := range rules() {
		is := refused
		if rule.ignored {
			is = notApplicable
		}
		all = append(all, row{fields: rule.fields, is: is, says: rule.why, file: "server/fields/refused.go"})
	}
	return all
}

// rowOf finds the row of a field.
func rowOf(field string) (row, bool) {
	for _, row := range table() {
		if slices.Contains(row.fields, field) {
			return row, true
		}
	}
	return row{}, false
}

// fileFor returns the file for the row of a new field: the file with the other fields of its message.
func fileFor(field string) string {
	message, _, _ := strings.Cut(field, ".")
	for _, row := range table() {
		if row.is == implemented && strings.HasPrefix(row.fields[0], message+".") {
			return row.file
		}
	}
	return "server/fields/rows_requests_test.go"
}

// abilityOf returns the requirement of a field, or nil if the field works on every engine.
func abilityOf(field string) *ability {
	for _, ability := range abilities() {
		if slices.Contains(ability.fields, field) {
			return &ability
		}
	}
	return nil
}

// needs returns the engine or runtime that supports the row's fields. It is empty if every engine supports them.
func (r row) needs() string {
	if ability := abilityOf(r.fields[0]); ability != nil {
		return ability.needs
	}
	return ""
}
